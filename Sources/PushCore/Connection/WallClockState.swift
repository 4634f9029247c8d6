/// How far this machine's clock is off, judged by Redis' clock, which all workers of a fleet share, and by APNs'.
///
/// Expirations, ages and the timestamps of activities compare times of several machines. With one clock two hours off, a worker would end
/// others' jobs, or send states that devices ignore. Provider tokens are for APNs alone, which refuses those that do not fit its own clock.
package struct WallClockState: Sendable {
  package enum Source: Sendable {
    case redis
    /// The date of an answer.
    case apns
    /// The date of a refusal of the credential: by this clock a provider token is judged.
    case apnsRefusal
  }

  /// A worker's clock that differs by less agrees: answers take time.
  package static let toleranceMilliseconds: Int64 = 1_000
  /// The same of gateways and commands, whose times order what different ones of them take.
  package static let preciseToleranceMilliseconds: Int64 = 20
  /// The same of APNs' dates, which have whole seconds and come with answers that may take some.
  package static let apnsToleranceMilliseconds = ClockState.toleranceSeconds * 1_000
  /// Herald goes by APNs' clock only if it differs by more.
  package static let apnsGapMilliseconds: Int64 = 60_000
  /// So many of APNs' dates in a row must agree before Herald goes by them: one may be of a server with a wrong clock.
  package static let apnsDatesMinimum = 3

  private let redisToleranceMilliseconds: Int64
  /// Their times less the monotonic clock's, milliseconds: setting this machine's clock does not change them.
  private var redis: Int64?
  private var apns: Int64?
  /// APNs' dates in a row that agree.
  private var apnsDates = 0
  /// One of them came with a refusal.
  private var hasRefused = false

  /// - Parameter redisToleranceMilliseconds: a clock that differs from Redis' by less is not corrected.
  package init(redisToleranceMilliseconds: Int64 = WallClockState.toleranceMilliseconds) {
    self.redisToleranceMilliseconds = redisToleranceMilliseconds
  }

  /// - Parameters:
  ///   - unixMilliseconds: the source's time; one that no clock has is ignored.
  ///   - monotonic: when it had it.
  package mutating func heard(_ source: Source, unixMilliseconds: Int64, at monotonic: Instant) {
    guard 0...Limits.unixSecondsMaximum * 1_000 ~= unixMilliseconds else { return }
    let base = unixMilliseconds - monotonic.nanoseconds / 1_000_000
    switch source {
    case .redis: redis = base
    case .apns: heardAPNs(base, isRefusal: false)
    case .apnsRefusal: heardAPNs(base, isRefusal: true)
    }
  }

  private mutating func heardAPNs(_ base: Int64, isRefusal: Bool) {
    if let apns, (base - apns).magnitude <= UInt64(WallClockState.apnsToleranceMilliseconds) {
      apnsDates = min(apnsDates + 1, WallClockState.apnsDatesMinimum)
    } else {
      apnsDates = 1
      hasRefused = false
    }
    hasRefused = hasRefused || isRefusal
    apns = base
  }

  private var isAPNsSure: Bool { apnsDates >= WallClockState.apnsDatesMinimum }

  /// What to add to this machine's clock, milliseconds: Redis decides, unless APNs agrees with this machine and not with Redis. While Redis
  /// has not told its time, several of APNs' dates decide.
  /// - Parameter machine: with the machine's own clock.
  package func correction(_ machine: Now) -> Int64 {
    let own = machine.unixMilliseconds - machine.monotonicMilliseconds
    guard let redis else {
      guard let apns, isAPNsSure, isGap(apns, own) else { return 0 }
      return apns - own
    }
    guard (redis - own).magnitude > UInt64(redisToleranceMilliseconds) else { return 0 }
    let tolerance = UInt64(WallClockState.apnsToleranceMilliseconds)
    if let apns, (apns - own).magnitude <= tolerance, (apns - redis).magnitude > tolerance { return 0 }
    return redis - own
  }

  /// The time by which APNs judges provider tokens, Unix milliseconds; nil: not known.
  /// - Parameter machine: with the machine's own clock.
  package func apnsTime(_ machine: Now) -> Int64? {
    guard let apns, isAPNsSure || hasRefused else { return nil }
    return apns + machine.monotonicMilliseconds
  }

  /// The time by which provider tokens are made, Unix milliseconds: APNs', where it is known to differ from ours.
  /// - Parameter machine: with the machine's own clock.
  package func tokenTime(_ machine: Now) -> Int64 {
    let ours = machine.unixMilliseconds + correction(machine)
    guard let theirs = apnsTime(machine), isGap(theirs, ours) else { return ours }
    return theirs
  }

  private func isGap(_ first: Int64, _ second: Int64) -> Bool {
    (first - second).magnitude > UInt64(WallClockState.apnsGapMilliseconds)
  }
}
