import PushCore
import Testing

/// The tables beside the connections: requests in flight, pauses.
@Suite struct RequestTableTests {
  @Test func listsThatWereGivenBackAreUsedAgain() {
    var table = RequestTable()
    // As many reloads as there will ever be: list numbers have 16 bits.
    for _ in 0..<100_000 {
      let list = table.makeList()
      #expect(table.count(of: list) == 0)
      table.recycle(list)
    }
    let first = table.makeList()
    #expect(table.makeList() != first)
  }

  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  private func request(_ send: UInt32, _ list: UInt16, at time: Int64) -> RequestTable.Request {
    RequestTable.Request(
      send: Ticket(index: send, generation: 1), sentAt: at(time), list: list, tokenSerial: 0, topicHash: 0,
      targetHash: 0)
  }

  @Test func oldestIsTheFirstThatIsStillThere() {
    var table = RequestTable()
    let one = table.makeList()
    let other = table.makeList()
    let first = table.insert(request(7, one, at: 10))
    _ = table.insert(request(3, other, at: 11))
    let second = table.insert(request(900, one, at: 12))
    #expect(table.oldestSentAt(of: one) == at(10))
    #expect(table.oldestSentAt(of: other) == at(11))
    #expect(table.remove(first)?.sentAt == at(10))
    #expect(table.oldest(of: one) == second)
    #expect(table.remove(second)?.send.index == 900)
    #expect(table.oldestSentAt(of: one) == nil)
    #expect(table.count(of: one) == 0)
    #expect(table.count == 1)
  }

  /// A send may have a second request while the first one's end is still to be told.
  @Test func aNameIsNeverUsedAgain() {
    var table = RequestTable()
    let list = table.makeList()
    #expect(table.remove(Ticket(index: 0, generation: 1)) == nil)
    var names: Set<Ticket> = []
    for time in 0..<1000 as Range<Int64> {
      let name = table.insert(request(5, list, at: time))
      #expect(names.insert(name).inserted)
      #expect(table.remove(name)?.sentAt == at(time))
      #expect(table.remove(name) == nil)
    }
    let given = table.insert(request(5, list, at: 0))
    #expect(names.allSatisfy { table.remove($0) == nil }, "late events find nobody")
    #expect(table.remove(given) != nil)
  }

  /// Against a plain model: any order of sending and answering.
  @Test(arguments: 0..<20 as Range<UInt64>)
  func agreesWithAPlainModel(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = RequestTable()
    let lists = (0..<3).map { _ in table.makeList() }
    var model: [(name: Ticket, request: RequestTable.Request)] = []
    for step in 0..<3000 as Range<Int64> {
      let place = Int(random.next() % 64)
      if place < model.count {
        let expected = model.remove(at: place)
        #expect(table.remove(expected.name)?.sentAt == expected.request.sentAt)
        #expect(table.remove(expected.name) == nil)
      } else {
        let new = request(UInt32(place), lists[Int(random.next() % 3)], at: step)
        model.append((table.insert(new), new))
      }
      for list in lists {
        let mine = model.filter { $0.request.list == list }
        #expect(table.oldestSentAt(of: list) == mine.first?.request.sentAt)
        #expect(table.oldest(of: list) == mine.first?.name)
        #expect(table.count(of: list) == mine.count)
      }
    }
    #expect(table.count == model.count)
  }
}

/// When a credential or a topic is left alone, and when it is tried again.
@Suite struct PauseTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (9_000 + milliseconds) * 1_000_000) }

  @Test func pausesProbesAndPausesTwiceAsLong() {
    var pause = PauseState()
    #expect(pause.decide(now: at(0)) == .go)
    #expect(pause.refused(now: at(0)) == true)
    #expect(pause.refused(now: at(1)) == false, "what was under way says nothing new")
    #expect(pause.decide(now: at(14_999)) == .stop(milliseconds: 2))
    #expect(pause.decide(now: at(15_000)) == .probe)
    #expect(pause.decide(now: at(15_001)) == .stop(milliseconds: 14_999))
    #expect(pause.refused(now: at(15_100)) == true)
    #expect(pause.decide(now: at(45_099)) == .stop(milliseconds: 2))
    #expect(pause.decide(now: at(45_100)) == .probe)
    #expect(pause.accepted() == true)
    #expect(pause.accepted() == false)
    #expect(pause.decide(now: at(45_101)) == .go)
  }

  @Test func aProbeWithoutAnswerIsFollowedByAnother() {
    var pause = PauseState()
    #expect(pause.refused(now: at(0)) == true)
    #expect(pause.decide(now: at(15_000)) == .probe)
    #expect(pause.decide(now: at(29_999)) == .stop(milliseconds: 1))
    #expect(pause.decide(now: at(30_000)) == .probe)
    pause.probeNotSent(now: at(30_000))
    #expect(pause.decide(now: at(30_001)) == .probe)
  }

  @Test func neverLongerThanTenMinutes() {
    var pause = PauseState()
    var now: Int64 = 0
    #expect(pause.refused(now: at(now)) == true)
    for _ in 0..<20 {
      now += 600_000
      #expect(pause.decide(now: at(now)) == .probe)
      #expect(pause.refused(now: at(now)) == true)
    }
    #expect(pause.decide(now: at(now)) == .stop(milliseconds: 600_001))
  }

  @Test func oneTopicLeavesTheOthersAlone() {
    var table = PauseTable()
    #expect(table.isQuiet)
    #expect(table.refused(.topic, topicHash: 7, now: at(0)) == true)
    #expect(!table.isQuiet)
    #expect(table.decide(topicHash: 7, now: at(1)) == .stop(milliseconds: 15_000))
    #expect(table.decide(topicHash: 8, now: at(1)) == .go)
    #expect(table.accepted(topicHash: 8) == false)
    #expect(table.accepted(topicHash: 7) == true)
    #expect(table.isQuiet)
  }

  @Test func repeatedMeansFiveInARow() {
    var table = PauseTable()
    for time in 0..<4 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, topicHash: 7, now: at(time)) == false)
    }
    #expect(table.decide(topicHash: 7, now: at(5)) == .go)
    #expect(table.accepted(topicHash: 7) == false)
    for time in 10..<14 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, topicHash: 7, now: at(time)) == false)
    }
    #expect(table.refused(.topicWhenRepeated, topicHash: 7, now: at(15)) == true)
    #expect(table.decide(topicHash: 7, now: at(16)) != .go)
    #expect(table.pausedCounts.topics == 1)
  }

  @Test func refusalsThatAreFarApartAreNoRow() {
    var table = PauseTable()
    for minute in 0..<20 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, topicHash: 7, now: at(minute * 60_001)) == false)
    }
  }

  @Test func aPausedTopicsProbePausesAgainAtOnce() {
    var table = PauseTable()
    for time in 0..<5 as Range<Int64> { _ = table.refused(.topicWhenRepeated, topicHash: 7, now: at(time)) }
    #expect(table.decide(topicHash: 7, now: at(20_000)) == .probe)
    #expect(table.refused(.topicWhenRepeated, topicHash: 7, now: at(20_100)) == true)
  }

  @Test func aJumpOfRefusedTokensPausesEverything() {
    var table = PauseTable()
    for index in 0..<49 as Range<Int64> {
      table.answered(now: at(index))
      #expect(table.refused(.everythingWhenFrequent, topicHash: 1, now: at(index)) == false)
    }
    table.answered(now: at(49))
    #expect(table.refused(.everythingWhenFrequent, topicHash: 1, now: at(49)) == true)
    #expect(table.decide(topicHash: 2, now: at(50)) != .go)
    #expect(table.pausedCounts.everything)
  }

  @Test func refusedTokensAmongManyOthersPauseNothing() {
    var table = PauseTable()
    for index in 0..<3000 as Range<Int64> {
      table.answered(now: at(index * 5))
      if index % 3 == 0 { #expect(table.refused(.everythingWhenFrequent, topicHash: 1, now: at(index * 5)) == false) }
    }
    #expect(table.isQuiet)
  }

  @Test func theTableIsBounded() {
    var table = PauseTable()
    for hash in 0..<1000 as Range<UInt64> { _ = table.refused(.topic, topicHash: hash, now: at(Int64(hash))) }
    #expect(table.pausedCounts.topics == 64)
    #expect(table.decide(topicHash: 999, now: at(1_000)) != .go)
  }
}
