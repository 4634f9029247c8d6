/// What is kept of one device's rate: when its next request would be on time, and which requests were charged last.
///
/// The charges make a redelivery fair. A job whose worker died is delivered again while its first charge still counts;
/// found among the last charges it proceeds and costs nothing, instead of standing behind itself. They need no life of
/// their own: the state may be forgotten at the theoretical arrival time, when the device has its whole burst again and
/// a second charge costs it nothing that it misses.
package struct RateState: Sendable {
  /// Charges remembered: a device with more in flight may be charged twice for a redelivery, never too little.
  package static let chargesKept = 8

  package enum Answer: Hashable, Sendable {
    case proceed
    case limited(retryAfterMilliseconds: Int64)
  }

  /// Theoretical arrival time, Unix microseconds.
  package private(set) var arrivalMicroseconds: Int64
  /// 0 = none.
  private var charges = InlineArray<8, UInt64>(repeating: 0)
  private var nextCharge = 0

  /// A device with its whole burst.
  package init() {
    arrivalMicroseconds = .min
  }

  /// Charges the request named by `charge`, unless it was charged lately or the device is over its rate.
  package mutating func charge(_ charge: UInt64, limit: RateLimit, nowMicroseconds: Int64) -> Answer {
    if arrivalMicroseconds <= nowMicroseconds {
      self = RateState()
      arrivalMicroseconds = nowMicroseconds
    }
    for index in 0..<RateState.chargesKept where charges[index] == charge { return .proceed }
    let wait = arrivalMicroseconds - nowMicroseconds - limit.toleranceMicroseconds
    if wait > 0 { return .limited(retryAfterMilliseconds: (wait + 999) / 1000) }
    arrivalMicroseconds += limit.intervalMicroseconds
    charges[nextCharge] = charge
    nextCharge = (nextCharge + 1) % RateState.chargesKept
    return .proceed
  }

  /// APNs itself refused the device's requests: nothing for so long, then one an interval until the burst is back. What was
  /// charged is forgotten, so that the refused request does not pass as a redelivery.
  package mutating func tighten(microseconds: Int64, limit: RateLimit?, nowMicroseconds: Int64) {
    let arrival = nowMicroseconds + microseconds + (limit?.toleranceMicroseconds ?? 0)
    let known = arrivalMicroseconds
    self = RateState()
    arrivalMicroseconds = max(known, arrival)
  }

  /// Nothing limits the device but what `tighten` said: how long it still holds; 0: it does not.
  package func tightMilliseconds(nowMicroseconds: Int64) -> Int64 {
    arrivalMicroseconds <= nowMicroseconds ? 0 : (arrivalMicroseconds - nowMicroseconds + 999) / 1000
  }
}
