/// How far this machine's clock is off, judged by Redis' clock, which all workers of a fleet share, and by APNs'.
///
/// Expirations, ages and the timestamps of activities compare times of several machines. With one clock two hours off, a worker would end
/// others' jobs, or send states that devices ignore.
package struct WallClockState: Sendable {
  package enum Source: Sendable {
    case redis, apns
  }

  /// Clocks that differ by less agree: answers take time.
  package static let toleranceMilliseconds: Int64 = 1_000
  /// The same of APNs' dates, which have whole seconds and come with answers that may take some.
  package static let apnsToleranceMilliseconds = ClockState.toleranceSeconds * 1_000

  /// Their times less the monotonic clock's, milliseconds: setting this machine's clock does not change them.
  private var redis: Int64?
  private var apns: Int64?

  package init() {}

  /// - Parameters:
  ///   - unixMilliseconds: the source's time; one that no clock has is ignored.
  ///   - monotonic: when it had it.
  package mutating func heard(_ source: Source, unixMilliseconds: Int64, at monotonic: Instant) {
    guard 0...Limits.unixSecondsMaximum * 1_000 ~= unixMilliseconds else { return }
    let base = unixMilliseconds - monotonic.nanoseconds / 1_000_000
    switch source {
    case .redis: redis = base
    case .apns: apns = base
    }
  }

  /// What to add to this machine's clock, milliseconds: Redis decides, unless APNs agrees with this machine and not with Redis.
  /// - Parameter machine: with the machine's own clock.
  package func correction(_ machine: Now) -> Int64 {
    guard let redis else { return 0 }
    let own = machine.unixMilliseconds - machine.monotonicMilliseconds
    guard (redis - own).magnitude > UInt64(WallClockState.toleranceMilliseconds) else { return 0 }
    let tolerance = UInt64(WallClockState.apnsToleranceMilliseconds)
    if let apns, (apns - own).magnitude <= tolerance, (apns - redis).magnitude > tolerance { return 0 }
    return redis - own
  }
}
