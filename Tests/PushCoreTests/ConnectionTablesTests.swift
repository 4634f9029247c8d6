import PushCore
import Testing

/// The tables beside the connections: requests in flight, pauses.
@Suite struct RequestTableTests {
  @Test func listsThatWereGivenBackAreUsedAgain() {
    var table = RequestTable()
    for _ in 0..<100_000 {
      let list = table.makeList()
      #expect(table.count(of: list) == 0)
      table.recycle(list)
    }
    let first = table.makeList()
    #expect(table.makeList() != first)
  }

  /// 330 credentials with 100 connections each have more than 65,536 places.
  @Test func manyConnections_haveListsOfTheirOwn() {
    var table = RequestTable()
    let lists = Set((0..<200_000).map { _ in table.makeList() })
    #expect(lists.count == 200_000)
    guard let last = lists.max() else { return }
    let name = table.insert(request(1, last, at: 1))
    #expect(table.count(of: last) == 1 && table.remove(name)?.list == last)
  }

  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  private func request(_ send: UInt32, _ list: UInt32, at time: Int64) -> RequestTable.Request {
    RequestTable.Request(
      send: Ticket(index: send, generation: 1), sentAt: at(time), list: list, tokenSerial: 0,
      pauseKey: PauseKey(topicHash: 0, jobClass: .bulk, isBroadcast: false),
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

  /// A send may have a second request while the first one's end is still to be reported.
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

/// When a credential or a topic is paused, and when it is tried again.
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

  /// APNs gives no time after which a token is taken: 20 minutes are the most.
  @Test func aHoldProbesAndTheFirstAcceptedOneEndsIt() {
    var pause = PauseState()
    var now: Int64 = 0
    #expect(pause.hold(milliseconds: 1_200_000, now: at(now)) == true)
    #expect(pause.hold(milliseconds: 1_199_000, now: at(1_000)) == false, "known")
    #expect(pause.decide(now: at(14_999)) == .stop(milliseconds: 2))
    for seconds: Int64 in [15, 30, 60, 120, 240, 480, 960, 1_200, 1_200] {
      now += seconds * 1_000
      #expect(pause.decide(now: at(now - 1)) == .stop(milliseconds: 2), "\(seconds) s")
      #expect(pause.decide(now: at(now)) == .probe)
      #expect(pause.decide(now: at(now)) == .stop(milliseconds: PauseState.probeMilliseconds))
      #expect(pause.hold(milliseconds: 1_200_000, now: at(now)) == true, "the probe was refused as well")
    }
    #expect(pause.decide(now: at(now + 1_200_000)) == .probe)
    #expect(pause.accepted() == true)
    #expect(pause.decide(now: at(now + 1_200_001)) == .go)
    // A hold that ends sooner.
    #expect(pause.hold(milliseconds: 5_000, now: at(now)) == true)
    #expect(pause.decide(now: at(now + 5_000)) == .probe)
  }
}

/// A pause whose jobs may each be refused for reasons of their own.
@Suite struct SeveralProbesTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (9_000 + milliseconds) * 1_000_000) }

  private func probing(_ count: Int, at now: Int64) -> PauseState {
    var pause = PauseState(probes: PauseState.severalProbes)
    #expect(pause.refused(now: at(now - 15_000)) == true)
    for _ in 0..<count { #expect(pause.decide(now: at(now)) == .probe) }
    return pause
  }

  @Test func oneOfSeveralOpens() {
    var pause = probing(4, at: 15_000)
    #expect(pause.decide(now: at(15_001)) == .stop(milliseconds: 14_999))
    for _ in 0..<3 { #expect(pause.refused(now: at(15_100)) == false) }
    #expect(pause.since == at(0))
    #expect(pause.accepted() == true)
    #expect(pause.decide(now: at(15_101)) == .go && pause.since == nil)
  }

  @Test func allRefused_pauseTwiceAsLong() {
    var pause = probing(4, at: 15_000)
    for number in 0..<4 { #expect(pause.refused(now: at(15_100)) == (number == 3)) }
    #expect(pause.probeMilliseconds(now: at(15_100)) == 30_000)
    #expect(pause.since == at(0), "it goes on")
  }

  /// A trickle of bad jobs: it waits longer and longer too.
  @Test func fewRefused_pauseTwiceAsLongOnceTheirTimeIsOver() {
    var pause = probing(2, at: 15_000)
    for _ in 0..<2 { #expect(pause.refused(now: at(15_100)) == false) }
    #expect(pause.decide(now: at(30_000)) == .stop(milliseconds: 30_001))
    #expect(pause.decide(now: at(60_000)) == .probe)
  }

  @Test func probeThatIsNotSent_isSentLater() {
    var pause = probing(4, at: 15_000)
    pause.probeNotSent(now: at(15_000))
    #expect(pause.decide(now: at(15_001)) == .probe)
    #expect(pause.decide(now: at(15_001)) == .stop(milliseconds: 14_999))
    var first = probing(1, at: 15_000)
    first.probeNotSent(now: at(15_000))
    #expect(first.decide(now: at(15_001)) == .probe)
  }
}

/// Which sends of a credential are paused, and which go on.
@Suite struct PauseTableTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: (9_000 + milliseconds) * 1_000_000) }

  private func key(_ topic: UInt64, _ jobClass: JobClass = .bulk, isBroadcast: Bool = false) -> PauseKey {
    PauseKey(topicHash: topic * 4, jobClass: jobClass, isBroadcast: isBroadcast)
  }

  private let accepted: PauseTable.Proof = [.credential, .topic, .environment]

  /// A refused device token: the answer, then the action of its verdict.
  private func badToken(_ table: inout PauseTable, _ key: PauseKey, at time: Int64 = 0) -> PauseTable.Effect {
    #expect(table.answered(key, proving: []).count == 0)
    return table.refused(.branchWhenNoneAccepted, key, now: at(time))
  }

  @Test func oneTopicLeavesTheOthersAlone() {
    var table = PauseTable()
    #expect(table.isQuiet)
    #expect(table.refused(.topic, key(7), now: at(0)) == .paused)
    #expect(!table.isQuiet)
    #expect(table.decide(key(7), now: at(1)) == .stop(milliseconds: 15_000))
    #expect(table.decide(key(7, .transactional), now: at(1)) == .stop(milliseconds: 15_000), "a topic is all of it")
    #expect(table.decide(key(7, isBroadcast: true), now: at(1)) == .stop(milliseconds: 15_000))
    #expect(table.decide(key(8), now: at(1)) == .go)
    #expect(table.answered(key(8), proving: accepted).count == 0)
    #expect(table.answered(key(7), proving: accepted).count == 1)
    #expect(table.isQuiet)
  }

  @Test func pausesHaveNamesAndAreLifted() {
    var table = PauseTable()
    let label = PauseTable.Label(topic: "com.example.app", reason: "no")
    #expect(table.refused(.topic, key(7), now: at(0)) == .paused)
    table.name(.topic, key(7), label)
    #expect(table.refused(.everything, key(8), now: at(1_000)) == .paused)
    table.name(.everything, key(8), .init(reason: "never"))
    #expect(
      table.entries(now: at(2_000)) == [
        .init(label: .init(reason: "never"), sinceMilliseconds: 1_000, probeMilliseconds: 14_000),
        .init(label: label, sinceMilliseconds: 2_000, probeMilliseconds: 13_000),
      ])
    #expect(table.lift(topic: "com.example") == [])
    #expect(table.lift(topic: "com.example.app") == [label])
    #expect(table.entries(now: at(2_000)).count == 1)
    #expect(table.lift(topic: nil) == [.init(reason: "never")])
    #expect(table.isQuiet && table.decide(key(7), now: at(2_001)) == .go)
  }

  @Test func repeatedMeansFiveInARow() {
    var table = PauseTable()
    for time in 0..<4 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, key(7), now: at(time)) == .none)
    }
    #expect(table.decide(key(7), now: at(5)) == .go)
    #expect(table.answered(key(7), proving: accepted).count == 0)
    for time in 10..<14 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, key(7), now: at(time)) == .none)
    }
    #expect(table.refused(.topicWhenRepeated, key(7), now: at(15)) == .paused)
    #expect(table.decide(key(7), now: at(16)) != .go)
    #expect(table.pausedCounts.topics == 1)
  }

  @Test func refusalsThatAreFarApartAreNoRow() {
    var table = PauseTable()
    for minute in 0..<20 as Range<Int64> {
      #expect(table.refused(.topicWhenRepeated, key(7), now: at(minute * 60_001)) == .none)
    }
  }

  @Test func aPausedTopicsProbePausesAgainAtOnce() {
    var table = PauseTable()
    for time in 0..<5 as Range<Int64> { _ = table.refused(.topicWhenRepeated, key(7), now: at(time)) }
    #expect(table.decide(key(7), now: at(20_000)) == .probe)
    #expect(table.refused(.topicWhenRepeated, key(7), now: at(20_100)) == .paused)
  }

  @Test func broadcastsArePausedWithoutTheTopicsPushes() {
    var table = PauseTable()
    #expect(table.refused(.branch, key(7, isBroadcast: true), now: at(0)) == .paused)
    #expect(table.decide(key(7, isBroadcast: true), now: at(1)) != .go)
    for jobClass in JobClass.allCases { #expect(table.decide(key(7, jobClass), now: at(1)) == .go) }
    #expect(table.answered(key(7), proving: accepted).count == 0, "a push to a device proves nothing of broadcasts")
    #expect(table.decide(key(7, isBroadcast: true), now: at(2)) != .go)
    #expect(table.answered(key(7, isBroadcast: true), proving: accepted).count == 1)
    #expect(table.isQuiet)
  }

  /// The broker distributes in turn: this lane gets the bad tokens of a mixed campaign, another one the good ones.
  @Test func whatAnotherLaneHadAcceptedPausesNothing() {
    var table = PauseTable()
    var effects: [PauseTable.Effect] = []
    for time in 0..<1000 as Range<Int64> {
      #expect(table.answered(key(7), proving: []).count == 0)
      effects.append(
        table.refused(.branchWhenNoneAccepted, key(7), acceptedElsewhere: at(time / 100 * 100), now: at(time)))
    }
    #expect(effects.count(where: { $0 == .paused }) == 0)
    #expect(effects.count(where: { $0 == .warned }) == 1)
    #expect(table.decide(key(7), now: at(1001)) == .go)
    // None is accepted there any more.
    effects = (1001..<1300 as Range<Int64>).map { time in
      _ = table.answered(key(7), proving: [])
      return table.refused(.branchWhenNoneAccepted, key(7), acceptedElsewhere: at(900), now: at(time))
    }
    #expect(effects.contains(.paused))
  }

  @Test func twoHundredAnswersWithoutAnAcceptancePauseTopicAndClassAlone() {
    var table = PauseTable()
    for time in 0..<199 as Range<Int64> { #expect(badToken(&table, key(7), at: time) == .none) }
    #expect(table.decide(key(7), now: at(200)) == .go)
    #expect(badToken(&table, key(7), at: 200) == .paused)
    #expect(badToken(&table, key(7), at: 201) == .none, "it was under way")
    #expect(table.decide(key(7), now: at(202)) != .go)
    #expect(table.decide(key(7, .transactional), now: at(202)) == .go)
    #expect(table.decide(key(7, isBroadcast: true), now: at(202)) == .go)
    #expect(table.decide(key(8), now: at(202)) == .go)
    #expect(table.pausedCounts == (false, 1))
    for _ in 0..<4 { #expect(table.decide(key(7), now: at(15_201)) == .probe) }
    #expect(table.decide(key(7), now: at(15_201)) == .stop(milliseconds: 15_000))
    for number in 0..<4 { #expect(badToken(&table, key(7), at: 15_202) == (number == 3 ? .paused : .none)) }
    #expect(table.decide(key(7), now: at(45_203)) == .probe)
    #expect(table.answered(key(7), proving: accepted).count == 1)
    #expect(table.decide(key(7), now: at(45_204)) == .go)
    for time in 0..<199 as Range<Int64> { #expect(badToken(&table, key(7), at: 50_000 + time) != .paused) }
    #expect(badToken(&table, key(7), at: 51_000) == .paused, "counted anew")
  }

  /// 410 says that APNs knew the token: its environment is right. Any other answer counts as one more without an acceptance.
  @Test func whatProvesTheEnvironmentAndWhatDoesNot() {
    for (proof, isPaused) in [([], true), (.environment, false), (accepted, false)] as [(PauseTable.Proof, Bool)] {
      var table = PauseTable()
      for time in 0..<199 as Range<Int64> { _ = badToken(&table, key(7), at: time) }
      #expect(table.answered(key(7), proving: proof).count == 0)
      #expect((badToken(&table, key(7), at: 300) == .paused) == isPaused, "\(proof)")
    }
  }

  /// In any order of good and bad tokens: with one acceptance in 200, nothing is paused.
  @Test(arguments: 0..<20 as Range<UInt64>) func againstAPlainModel(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = PauseTable()
    var last: [PauseKey: [Bool]] = [:]
    var isPaused: Set<PauseKey> = []
    let keys = [key(1), key(1, .transactional), key(2), key(2, .transactional)]
    for step in 0..<6_000 as Range<Int64> {
      let key = keys[Int(random.next() % 4)]
      guard !isPaused.contains(key) else { continue }
      let isAccepted = random.next() % 150 == 0
      // Only answers after the first refused token count.
      if !isAccepted || last[key] != nil { last[key, default: []].append(isAccepted) }
      if isAccepted {
        #expect(table.answered(key, proving: accepted).count == 0)
        continue
      }
      let isDue = (last[key]?.count ?? 0) >= 200 && last[key]?.suffix(200).contains(true) == false
      #expect((badToken(&table, key, at: step) == .paused) == isDue, "step \(step)")
      if isDue { isPaused.insert(key) }
      for other in keys { #expect((table.decide(other, now: at(step)) == .go) == !isPaused.contains(other)) }
    }
    #expect(!isPaused.isEmpty, "long enough to see some")
  }

  @Test func aMixedCampaignIsWarnedOfOnceAndNeverPaused() {
    var table = PauseTable()
    var effects: [PauseTable.Effect] = []
    for index in 0..<5_000 as Range<Int64> {
      if index % 5 < 3 {
        effects.append(badToken(&table, key(7), at: index))
      } else {
        #expect(table.answered(key(7), proving: accepted).count == 0)
      }
      #expect(table.decide(key(7), now: at(index)) == .go)
    }
    #expect(effects.count { $0 == .warned } == 1)
    #expect(!effects.contains(.paused))
    // The pause ends, good ones follow, and the next pause is reported again.
    for _ in 0..<400 { _ = table.answered(key(7), proving: accepted) }
    #expect(table.isQuiet)
    effects = []
    for index in 0..<200 as Range<Int64> {
      if index % 2 == 0 {
        effects.append(badToken(&table, key(7), at: 9_000 + index))
      } else {
        _ = table.answered(key(7), proving: accepted)
      }
    }
    #expect(effects.count { $0 == .warned } == 1)
  }

  @Test func fewRefusedTokensAmongManyOthersAreNothing() {
    var table = PauseTable()
    for index in 0..<10_000 as Range<Int64> {
      if index % 6 == 0 {
        #expect(badToken(&table, key(7), at: index) == .none)
      } else {
        _ = table.answered(key(7), proving: accepted)
      }
    }
    for _ in 0..<400 { _ = table.answered(key(7), proving: accepted) }
    #expect(table.isQuiet)
  }

  @Test func anAcceptanceOfAnOlderTokenProvesTheTopicAlone() {
    var table = PauseTable()
    #expect(table.hold(milliseconds: 1_200_000, now: at(0)) == true)
    #expect(table.answered(key(7), proving: [.topic, .environment]).count == 0)
    #expect(table.decide(key(7), now: at(1)) != .go)
    #expect(table.answered(key(7), proving: accepted).count == 1)
    #expect(table.decide(key(7), now: at(2)) == .go)
  }

  /// A job that one pause holds is not the probe of another.
  @Test func aProbeIsNotSpentOnWhatIsKeptAllTheSame() {
    var table = PauseTable()
    _ = table.refused(.everything, key(1), now: at(0))
    _ = table.refused(.topic, key(1), now: at(10_000))
    _ = table.refused(.branch, key(2), now: at(20_000))
    #expect(table.decide(key(1), now: at(16_000)) == .stop(milliseconds: 9_001))
    #expect(table.decide(key(2), now: at(21_000)) == .stop(milliseconds: 14_001))
    #expect(table.decide(key(3), now: at(21_000)) == .probe, "the whole is still to be probed")
    #expect(table.decide(key(4), now: at(21_001)) != .go)
    table.probeNotSent(key(3), now: at(21_001))
    #expect(table.decide(key(4), now: at(21_002)) == .probe)
  }

  @Test func theTableIsBounded() {
    var table = PauseTable()
    for hash in 0..<1000 as Range<UInt64> { _ = table.refused(.topic, key(hash), now: at(Int64(hash))) }
    #expect(table.pausedCounts.topics == PauseTable.watchesMaximum)
    #expect(table.decide(key(999), now: at(1_000)) != .go)
    // Entries that pause nothing are evicted first.
    for hash in 2000..<2500 as Range<UInt64> {
      _ = badToken(&table, key(hash), at: Int64(hash))
      #expect(table.pausedCounts.topics >= PauseTable.watchesMaximum - 1)
    }
  }
}
