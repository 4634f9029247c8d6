import PushCore
import Testing

/// How a process gets the fleet's token, as traces of event → action.
@Suite struct ProviderTokenFleetStateTests {
  private func at(_ milliseconds: Int64) -> Now {
    Now(monotonic: Instant(nanoseconds: (1_000_000 + milliseconds) * 1_000_000), unixMilliseconds: 1_795_262_400_000)
  }

  private func looking() -> ProviderTokenFleetState {
    var state = ProviderTokenFleetState()
    #expect(state.asked(newerThan: 7, isConnected: true, now: at(0)) == .look(newerThan: 7))
    return state
  }

  @Test func theStoresTokenIsReported() {
    var state = looking()
    #expect(state.looked(.token, now: at(1)) == .tell(.token))
    #expect(state.turn(isConnected: true, now: at(10_000)) == .none)
  }

  @Test func aloneWithAnEmptyStore() {
    var state = looking()
    #expect(state.looked(.locked(isEmpty: true), now: at(1)) == .countOthers)
    #expect(state.counted(hasOthers: false, now: at(2)) == .tell(.mayMint))
    #expect(state.offered(now: at(3)) == .store)
    #expect(state.stored(isLockLost: false, now: at(4)) == .tell(.token))
  }

  @Test func aTokenThatIsDueIsFollowedAtOnce() {
    var state = looking()
    #expect(state.looked(.locked(isEmpty: false), now: at(1)) == .tell(.mayMint))
    #expect(state.offered(now: at(3)) == .store)
  }

  @Test func withOthersConnectedTheyMayPutTheirTokenBackFirst() {
    var state = looking()
    #expect(state.looked(.locked(isEmpty: true), now: at(0)) == .countOthers)
    #expect(state.counted(hasOthers: true, now: at(0)) == .tell(.waiting))
    for time in stride(from: Int64(50), to: 2000, by: 50) {
      #expect(state.turn(isConnected: true, now: at(time)) == .look(newerThan: 7))
      #expect(state.looked(.locked(isEmpty: true), now: at(time)) == .tell(.waiting))
      #expect(state.turn(isConnected: true, now: at(time + 49)) == .none)
    }
    #expect(state.turn(isConnected: true, now: at(2000)) == .look(newerThan: 7))
    #expect(state.looked(.locked(isEmpty: true), now: at(2000)) == .tell(.mayMint), "nobody had one")
    var other = looking()
    #expect(other.looked(.locked(isEmpty: true), now: at(0)) == .countOthers)
    #expect(other.counted(hasOthers: true, now: at(0)) == .tell(.waiting))
    #expect(other.turn(isConnected: true, now: at(50)) == .look(newerThan: 7))
    #expect(other.looked(.token, now: at(51)) == .tell(.token), "put back")
  }

  @Test func whoeverHasTheLockIsWaitedFor() {
    var state = looking()
    #expect(state.looked(.lockedByOther, now: at(0)) == .tell(.waiting))
    #expect(state.turn(isConnected: true, now: at(49)) == .none)
    #expect(state.turn(isConnected: true, now: at(50)) == .look(newerThan: 7))
    #expect(state.looked(.lockedByOther, now: at(51)) == .tell(.waiting))
    #expect(state.turn(isConnected: true, now: at(101)) == .look(newerThan: 7))
    #expect(state.looked(.token, now: at(102)) == .tell(.token))
  }

  @Test func whoLostTheLockLooksAgain() {
    var state = looking()
    #expect(state.looked(.locked(isEmpty: false), now: at(1)) == .tell(.mayMint))
    #expect(state.offered(now: at(2)) == .store)
    #expect(state.stored(isLockLost: true, now: at(3)) == .look(newerThan: 7))
    #expect(state.looked(.token, now: at(4)) == .tell(.token))
  }

  @Test func theTurnIsGivenBack() {
    var state = looking()
    #expect(state.looked(.locked(isEmpty: false), now: at(1)) == .tell(.mayMint))
    #expect(state.declined() == .release)
    #expect(state.declined() == .none)
    #expect(state.offered(now: at(2)) == .tell(.unreachable), "not in turn any more")
  }

  @Test func silenceAndLossAreUnreachable() {
    var silent = looking()
    #expect(silent.turn(isConnected: true, now: at(399)) == .none)
    #expect(silent.turn(isConnected: true, now: at(400)) == .tell(.unreachable))
    #expect(silent.looked(.token, now: at(401)) == .none, "too late")
    var lost = looking()
    #expect(lost.failed() == .tell(.unreachable))
    #expect(lost.failed() == .none)
    var storing = looking()
    #expect(storing.looked(.locked(isEmpty: false), now: at(1)) == .tell(.mayMint))
    #expect(storing.failed() == .none, "the asker signs")
    #expect(storing.offered(now: at(2)) == .store)
    #expect(storing.failed() == .tell(.unreachable))
  }

  @Test func askedBeforeTheConnection() {
    var state = ProviderTokenFleetState()
    #expect(state.asked(newerThan: 0, isConnected: false, now: at(0)) == .none)
    #expect(state.turn(isConnected: false, now: at(399)) == .none)
    #expect(state.connected(now: at(399)) == .look(newerThan: 0))
    var late = ProviderTokenFleetState()
    #expect(late.asked(newerThan: 0, isConnected: false, now: at(0)) == .none)
    #expect(late.turn(isConnected: false, now: at(400)) == .tell(.unreachable))
    #expect(late.connected(now: at(500)) == .none)
  }

  @Test func whatIsCarriedIsKeptOnceASecond() {
    var state = ProviderTokenFleetState()
    #expect(state.turn(isConnected: true, now: at(0)) == .none)
    state.carries()
    #expect(state.turn(isConnected: false, now: at(0)) == .none)
    #expect(state.turn(isConnected: true, now: at(0)) == .keep)
    state.kept()
    #expect(state.turn(isConnected: true, now: at(999)) == .none)
    #expect(state.nextTurn(isConnected: true) == at(1000).monotonic)
    #expect(state.turn(isConnected: true, now: at(1000)) == .keep)
    #expect(state.asked(newerThan: 9, isConnected: true, now: at(1001)) == .look(newerThan: 9), "at once")
    #expect(state.looked(.token, now: at(1002)) == .tell(.token))
    #expect(state.connected(now: at(1010)) == .none)
    #expect(state.turn(isConnected: true, now: at(1010)) == .keep, "a new connection may be to an empty store")
  }
}
