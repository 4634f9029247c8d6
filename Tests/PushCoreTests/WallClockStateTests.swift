import PushCore
import Testing

/// Whose clock counts: each line is what the clocks say and what follows from it.
@Suite struct WallClockStateTests {
  private static let time: Int64 = 1_796_000_000_000
  private static let hours: Int64 = 2 * 3_600_000

  /// A machine whose clock is so far ahead of the true time, some time after the start.
  private func machine(ahead: Int64, after milliseconds: Int64 = 0) -> Now {
    Now(
      monotonic: Instant(nanoseconds: 5_000_000 + milliseconds * 1_000_000),
      unixMilliseconds: Self.time + milliseconds + ahead)
  }

  private func state(
    redis: Int64?, apns: Int64? = nil, dates: Int = 1, _ source: WallClockState.Source = .apns
  ) -> WallClockState {
    var state = WallClockState()
    let monotonic = machine(ahead: 0).monotonic
    if let redis { state.heard(.redis, unixMilliseconds: Self.time + redis, at: monotonic) }
    if let apns { for _ in 0..<dates { state.heard(source, unixMilliseconds: Self.time + apns, at: monotonic) } }
    return state
  }

  @Test func redisDecides() {
    for ahead in [-Self.hours, -900, -21, 21, 900, Self.hours] {
      #expect(state(redis: 0).correction(machine(ahead: ahead)) == -ahead)
      #expect(state(redis: 0, apns: 900).correction(machine(ahead: ahead, after: 60_000)) == -ahead)
    }
    for ahead: Int64 in [-20, 0, 20] { #expect(state(redis: 0).correction(machine(ahead: ahead)) == 0) }
    #expect(state(redis: nil).correction(machine(ahead: Self.hours)) == 0, "it has not answered")
  }

  /// A worker that knows its clock to be wrong ends no others' jobs, also where Redis was never there.
  @Test func whileRedisHasNotToldItsTimeSeveralDatesOfAPNsDecide() {
    let wrong = machine(ahead: Self.hours, after: 60_000)
    #expect(state(redis: nil, apns: 0, dates: 3).correction(wrong) == -Self.hours)
    #expect(state(redis: nil, apns: 0, dates: 2).correction(wrong) == 0, "one server's clock may be wrong")
    #expect(state(redis: nil, apns: 0, dates: 3).correction(machine(ahead: 60_000)) == 0, "answers take time")
    #expect(state(redis: 0, apns: Self.hours, dates: 3).correction(machine(ahead: 5_000)) == -5_000, "Redis decides")
    var state = state(redis: nil, apns: 0, dates: 3)
    state.heard(.apns, unixMilliseconds: Self.time + Self.hours, at: machine(ahead: 0).monotonic)
    #expect(state.correction(wrong) == 0, "they contradict each other")
  }

  /// APNs judges provider tokens by its own clock, whatever that of Redis is.
  @Test func tokensGoByAPNsClock() {
    let right = machine(ahead: 0)
    let wrongRedis = Self.hours
    func ahead(_ state: WallClockState, _ machine: Now) -> Int64 { state.tokenTime(machine) - Self.time }
    #expect(ahead(state(redis: wrongRedis), right) == wrongRedis, "it is all that is known")
    #expect(ahead(state(redis: wrongRedis, apns: 100_000), right) == wrongRedis, "one date of an answer")
    #expect(ahead(state(redis: wrongRedis, apns: 100_000, .apnsRefusal), right) == 100_000)
    #expect(ahead(state(redis: wrongRedis, apns: 100_000, dates: 3), right) == 100_000)
    #expect(ahead(state(redis: 0, apns: 50_000, dates: 3), right) == 0, "they agree")
    #expect(state(redis: nil, apns: 0).apnsTime(right) == nil)
    #expect(state(redis: nil, apns: 0, .apnsRefusal).apnsTime(machine(ahead: 0, after: 9_000)) == Self.time + 9_000)
  }

  /// Half of what it took is its error: the machine's clock may be right.
  @Test func aSlowAnswerOfRedisSetsNoClockWrong() {
    var state = WallClockState()
    func heard(_ ahead: Int64, error: Int64, after: Int64) {
      let machine = machine(ahead: 0, after: after)
      state.heard(.redis, unixMilliseconds: machine.unixMilliseconds + ahead, error: error, at: machine.monotonic)
    }
    func correction(after: Int64) -> Int64 { state.correction(machine(ahead: 0, after: after)) }
    heard(400, error: 400, after: 0)
    #expect(correction(after: 0) == 0, "it may have been told at the start of the 800 ms")
    heard(-900, error: 400, after: 100)
    #expect(correction(after: 100) == -900, "it cannot be explained so")
    heard(-500, error: 1, after: 200)
    #expect(correction(after: 200) == -500, "a better one")
    heard(-100, error: 400, after: 30_000)
    #expect(correction(after: 30_000) == -500, "it may be the same time")
    heard(-100, error: 400, after: 61_000)
    #expect(correction(after: 61_000) == 0, "an old one says nothing any more")
    heard(-500, error: 1, after: 62_000)
    heard(3_000, error: 400, after: 63_000)
    #expect(correction(after: 63_000) == 3_000, "another server, or its clock was set")
  }

  @Test func aWrongRedisChangesNothing() {
    #expect(state(redis: Self.hours, apns: 0).correction(machine(ahead: 0)) == 0)
    #expect(state(redis: Self.hours, apns: -29_000).correction(machine(ahead: 1_000)) == 0)
    #expect(state(redis: Self.hours, apns: 0).correction(machine(ahead: -Self.hours)) == 2 * Self.hours, "all differ")
    #expect(state(redis: 20_000, apns: 0).correction(machine(ahead: 0)) == 20_000, "APNs may agree with both")
  }

  /// The machine's clock is set while nobody is asked.
  @Test func aClockThatIsSetIsSeenAtOnce() {
    let state = state(redis: 0, apns: 0)
    #expect(state.correction(machine(ahead: 0, after: 600_000)) == 0)
    #expect(state.correction(machine(ahead: Self.hours, after: 600_000)) == -Self.hours)
  }

  @Test func aTimeThatNoClockHasIsIgnored() {
    var state = state(redis: 0)
    for time in [Int64.min, -1, .max] { state.heard(.redis, unixMilliseconds: time, at: Instant(nanoseconds: 0)) }
    #expect(state.correction(machine(ahead: Self.hours)) == -Self.hours)
  }
}
