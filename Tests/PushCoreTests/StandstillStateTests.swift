import PushCore
import Testing

/// When a lane is at a standstill, and the reaction: a line for each check.
@Suite struct StandstillStateTests {
  private typealias Look = StandstillState.Look

  private func at(_ seconds: Int64) -> Instant { Instant(nanoseconds: (1_000_000 + seconds) * 1_000_000_000) }

  private func look(
    settled: UInt64 = 0, _ step: DeliveryStep? = .admitting, since: Int64 = 0, hold: StandstillState.Hold? = nil
  ) -> Look {
    var look = Look(settled: settled, inFlight: step == nil ? 0 : 1, hold: hold)
    if let step { look.add(step, received: at(since)) }
    return look
  }

  @Test func anAlarmThenRestartsFurtherAndFurtherApart() {
    var state = StandstillState()
    #expect(state.turn(look(nil), now: at(0)) == .none)
    #expect(state.turn(look(), now: at(14)) == .none)
    #expect(!state.isStanding)
    #expect(state.turn(look(), now: at(15)) == .alarm(.admitting))
    #expect(state.isStanding && state.standingMilliseconds(now: at(20)) == 20_000)
    #expect(state.turn(look(), now: at(16)) == .none, "said once")
    #expect(state.turn(look(), now: at(59)) == .none)
    #expect(state.turn(look(.sent), now: at(60)) == .restart(.sent), "what it waits for by now")
    // The connection comes back with the same jobs, and nothing moves.
    #expect(state.turn(look(nil, hold: .disconnected), now: at(61)) == .none)
    #expect(state.turn(look(), now: at(179)) == .none)
    #expect(state.turn(look(), now: at(180)) == .restart(.admitting))
    #expect(state.turn(look(), now: at(419)) == .none)
    #expect(state.turn(look(), now: at(420)) == .restart(.admitting))
    var restarts: [Int64] = []
    for second in Int64(421)...30_000 where state.turn(look(), now: at(second)) == .restart(.admitting) {
      restarts.append(second)
    }
    #expect(restarts == [900, 1860, 3780, 7380, 10980, 14580, 18180, 21780, 25380, 28980], "an hour apart at most")
    #expect(state.turn(look(settled: 1), now: at(30_001)) == .recovered)
    #expect(!state.isStanding)
    // Once something moves, everything starts anew.
    #expect(state.turn(look(settled: 1), now: at(30_015)) == .none)
    #expect(state.turn(look(settled: 1), now: at(30_016)) == .alarm(.admitting))
    #expect(state.turn(look(settled: 1), now: at(30_061)) == .restart(.admitting))
  }

  @Test func settlingNowAndThenIsNoStandstill() {
    var state = StandstillState()
    // APNs answers each request after 7 s; the oldest job is always some seconds old.
    for second in Int64(0)...300 {
      let settled = UInt64(second / 7)
      #expect(state.turn(look(settled: settled, .sent, since: second / 7 * 7), now: at(second)) == .none)
    }
  }

  @Test func anIdleLaneStandsNowhere() {
    var state = StandstillState()
    #expect(state.turn(look(nil), now: at(0)) == .none)
    #expect(state.turn(look(nil), now: at(600)) == .none)
    // The first job's time counts from its arrival.
    #expect(state.turn(look(since: 601), now: at(601)) == .none)
    #expect(state.turn(look(since: 601), now: at(614)) == .none)
    #expect(state.turn(look(since: 601), now: at(615)) == .alarm(.admitting))
  }

  @Test(arguments: [StandstillState.Hold.draining, .disconnected, .unpublishable])
  func aKnownReasonIsNoAlarmAndItsEndBeginsAnew(hold: StandstillState.Hold) {
    var state = StandstillState()
    for second in Int64(0)...600 { #expect(state.turn(look(hold: hold), now: at(second)) == .none) }
    #expect(state.turn(look(), now: at(614)) == .none)
    #expect(state.turn(look(), now: at(615)) == .alarm(.admitting))
    // While there is a known reason, the restart waits.
    for second in Int64(616)...900 { #expect(state.turn(look(hold: hold), now: at(second)) == .none) }
    #expect(state.isStanding)
    #expect(state.turn(look(), now: at(959)) == .none)
    #expect(state.turn(look(), now: at(960)) == .restart(.admitting))
  }

  @Test func aBrokerThatRefusesIsAnAlarmButNoRestart() {
    var state = StandstillState()
    #expect(state.turn(look(.reporting, hold: .refused), now: at(0)) == .none)
    #expect(state.turn(look(.reporting, hold: .refused), now: at(15)) == .alarm(.reporting))
    for second in Int64(16)...6000 {
      #expect(state.turn(look(.reporting, hold: .refused), now: at(second)) == .none)
    }
    #expect(state.turn(look(settled: 1, .reporting), now: at(6001)) == .recovered)
  }

  @Test func aLaneWhoseJobsWentElsewhereHasRecovered() {
    var state = StandstillState()
    #expect(state.turn(look(), now: at(0)) == .none)
    #expect(state.turn(look(), now: at(15)) == .alarm(.admitting))
    #expect(state.turn(look(), now: at(60)) == .restart(.admitting))
    #expect(state.turn(look(nil), now: at(61)) == .none)
    #expect(state.turn(look(nil), now: at(75)) == .none)
    #expect(state.turn(look(nil), now: at(76)) == .recovered)
    // Nothing settled since: the next restart comes as late as without the pause.
    #expect(state.turn(look(), now: at(77)) == .none)
    #expect(state.turn(look(), now: at(91)) == .alarm(.admitting))
    #expect(state.turn(look(), now: at(195)) == .none)
    #expect(state.turn(look(), now: at(196)) == .restart(.admitting))
  }

  @Test func aLongRequestTimeoutIsNoStandstill() {
    let usual = StandstillState.Settings(requestTimeoutMilliseconds: 10_000)
    #expect(usual == StandstillState.Settings())
    let long = StandstillState.Settings(requestTimeoutMilliseconds: 60_000)
    #expect(long.alarmMilliseconds == 65_000 && long.restartMilliseconds == 260_000)
    var state = StandstillState(settings: long)
    #expect(state.turn(look(.sent), now: at(0)) == .none)
    #expect(state.turn(look(.sent), now: at(64)) == .none)
    #expect(state.turn(look(.sent), now: at(65)) == .alarm(.sent))
    #expect(state.turn(look(.sent), now: at(259)) == .none)
    #expect(state.turn(look(.sent), now: at(260)) == .restart(.sent))
  }

  @Test func theOldestJobNamesTheStep() {
    var look = Look(settled: 0, inFlight: 3)
    #expect(look.oldestStep == nil)
    look.add(.unstarted, received: at(9))
    look.add(.confirm, received: at(5))
    look.add(.sent, received: at(7))
    look.add(.confirm, received: at(6))
    #expect(look.oldestStep == .confirm && look.oldest[DeliveryStep.confirm.rawValue] == at(5))
    look.add(.sent, received: at(5))
    #expect(look.oldestStep == .sent, "of a batch, what comes first")
  }
}
