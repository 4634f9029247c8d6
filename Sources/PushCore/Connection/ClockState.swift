/// Compares this machine's clock with APNs', by the dates of its answers, or with Redis'. Provider tokens carry our time: if it is too far off,
/// APNs refuses them all.
package struct ClockState: Sendable {
  package enum Change: Equatable, Sendable {
    case none
    /// APNs' clock is this far ahead of ours (negative: behind). Reported once.
    case differs(seconds: Int64)
    /// It was said to differ, and does not any more.
    case agrees
  }

  /// Answers may take seconds, and dates have whole seconds.
  package static let toleranceSeconds: Int64 = 30

  /// From the newest date; nil before the first.
  package private(set) var skewSeconds: Int64?
  private var isSaid = false

  package init() {}

  /// An answer carried this date.
  package mutating func heard(unixSeconds date: Int64, now: Now) -> Change {
    heard(skewSeconds: date &- now.unixSeconds)
  }

  /// The other clock is so far ahead of ours; negative: behind.
  package mutating func heard(skewMilliseconds skew: Int64) -> Change {
    heard(skewSeconds: (skew &+ (skew < 0 ? -500 : 500)) / 1_000)
  }

  private mutating func heard(skewSeconds skew: Int64) -> Change {
    skewSeconds = skew
    let differs = skew.magnitude > UInt64(ClockState.toleranceSeconds)
    guard differs != isSaid else { return .none }
    isSaid = differs
    return differs ? .differs(seconds: skew) : .agrees
  }
}
