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

  /// A clock that surely does not differ by more agrees with Redis'. The times of different processes order what they take.
  package static let toleranceMilliseconds: Int64 = 20
  /// A sample of Redis' time is replaced by a less exact one once it is so old.
  package static let sampleMilliseconds: Int64 = 60_000
  /// The same of APNs' dates, which have whole seconds and come with answers that may take some.
  package static let apnsToleranceMilliseconds = ClockState.toleranceSeconds * 1_000
  /// Herald goes by APNs' clock only if it differs by more.
  package static let apnsGapMilliseconds: Int64 = 60_000
  /// So many of APNs' dates in a row must agree before Herald goes by them: one may be of a server with a wrong clock.
  package static let apnsDatesMinimum = 3

  /// Redis' time, when it was heard.
  private struct Sample {
    /// As `apns`.
    var base: Int64
    /// By how much it may be off: half of what the answer took. Milliseconds.
    var error: Int64
    var heardAt: Instant
  }

  private var redis: Sample?
  /// APNs' time less the monotonic clock's, milliseconds: setting this machine's clock does not change it.
  private var apns: Int64?
  /// APNs' dates in a row that agree.
  private var apnsDates = 0
  /// One of them came with a refusal.
  private var hasRefused = false

  package init() {}

  /// - Parameters:
  ///   - unixMilliseconds: the source's time; one that no clock has is ignored.
  ///   - error: by how much it may be off, milliseconds.
  ///   - monotonic: when it had it.
  package mutating func heard(_ source: Source, unixMilliseconds: Int64, error: Int64 = 0, at monotonic: Instant) {
    guard 0...Limits.unixSecondsMaximum * 1_000 ~= unixMilliseconds else { return }
    let base = unixMilliseconds - monotonic.nanoseconds / 1_000_000
    switch source {
    case .redis: heardRedis(Sample(base: base, error: error, heardAt: monotonic))
    case .apns: heardAPNs(base, isRefusal: false)
    case .apnsRefusal: heardAPNs(base, isRefusal: true)
    }
  }

  /// The most exact sample of a minute counts, unless the next one says that it is wrong.
  private mutating func heardRedis(_ sample: Sample) {
    if let redis, redis.error < sample.error,
      sample.heardAt.milliseconds(since: redis.heardAt) < WallClockState.sampleMilliseconds,
      (redis.base - sample.base).magnitude <= UInt64(redis.error + sample.error + WallClockState.toleranceMilliseconds)
    {
      return
    }
    redis = sample
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

  package var hasRedisTime: Bool { redis != nil }

  /// This machine's clock is known to be right, or by how much it is wrong.
  package var isConfirmed: Bool { redis != nil || isAPNsSure }

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
    guard (redis.base - own).magnitude > UInt64(max(redis.error, WallClockState.toleranceMilliseconds)) else {
      return 0
    }
    let tolerance = UInt64(WallClockState.apnsToleranceMilliseconds)
    if let apns, (apns - own).magnitude <= tolerance, (apns - redis.base).magnitude > tolerance { return 0 }
    return redis.base - own
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
