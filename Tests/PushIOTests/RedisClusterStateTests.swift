import PushCore
import PushIO
import Testing

/// A cluster's slot table as traces: answers of nodes, then the owner of a slot.
@Suite struct RedisClusterStateTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  private func address(_ port: UInt16) -> RedisConfiguration.Address { .network(host: "10.0.0.1", port: port) }

  private func slots(_ ranges: [(Int64, Int64, String, Int64)]) -> RedisReply {
    .array(
      ranges.map { first, last, host, port in
        let owner = RedisReply.array([.bulk(Array(host.utf8)), .integer(port), .bulk(Array("id".utf8)), .array([])])
        let replica = RedisReply.array([.bulk(Array(host.utf8)), .integer(port + 1000), .bulk(Array("id".utf8))])
        return .array([.integer(first), .integer(last), owner, replica])
      })
  }

  /// Keys and slots as `redis-cli CLUSTER KEYSLOT` gives them.
  @Test(arguments: [
    ("123456789", 12_739), ("foo", 12_182), ("{foo}bar", 12_182), ("a{foo}{bar}", 12_182), ("foo{}bar", 7_550),
    ("", 0), ("{user1000}.following", 3_443), ("push:{AAAAAAAAAAAAAAAAAAAAAA}:x", 4_443),
  ])
  func slotsOfKeys(key: String, slot: Int) {
    if key.hasPrefix("push") {
      #expect(RedisSlot.of(key.utf8.span) == RedisSlot.of(tag: "AAAAAAAAAAAAAAAAAAAAAA".utf8.span))
    } else if key == "foo{}bar" {
      #expect(RedisSlot.of(key.utf8.span) == RedisSlot.of(tag: key.utf8.span), "an empty tag is none")
    } else {
      #expect(RedisSlot.of(key.utf8.span) == slot)
    }
  }

  @Test func theTableIsAskedForUntilItIsWhole() {
    var state = RedisClusterState(seeds: [address(1), address(2)])
    #expect(state.nodeToAsk(now: at(0)) { _ in false } == nil)
    #expect(state.nodeToAsk(now: at(0)) { $0 == 1 } == 1)
    #expect(state.nodeToAsk(now: at(1)) { _ in true } == nil, "one question at a time")
    #expect(
      state.learned(slots([(0, 5000, "10.0.0.1", 1), (5001, 16_382, "10.0.0.1", 3)]), from: 1, now: at(2)) == false)
    #expect(state.nodes.count == 3 && state.owner(of: 5001) == 2)
    #expect(state.nodeToAsk(now: at(251)) { _ in true } == nil)
    #expect(state.nodeToAsk(now: at(252)) { _ in true } == 2)
    #expect(
      state.learned(slots([(0, 5000, "10.0.0.1", 1), (5001, 16_383, "10.0.0.1", 3)]), from: 2, now: at(253)) == true)
    #expect(state.ownerNumbers == [0, 2])
    #expect(state.nodeToAsk(now: at(60_252)) { _ in true } == nil)
    #expect(state.nodeToAsk(now: at(60_253)) { _ in true } == 0, "now and then")
    #expect(state.learned(nil, from: 0, now: at(60_300)) == true, "no answer takes nothing away")
    #expect(state.nodeToAsk(now: at(60_550)) { $0 != 1 } == 2, "another one is asked")
  }

  /// All nodes start: each refuses at once, for seconds.
  @Test func refusedQuestionsAreNotRepeatedAtOnce() {
    var state = RedisClusterState(seeds: [address(1), address(2)])
    let text = Array("LOADING Redis is loading the dataset in memory".utf8)
    let loading = RedisReply.error(RedisServerError(text.span))
    var asked: [Int64] = []
    for now in 0..<Int64(1_000) {
      state.doubt(now: at(now))
      guard let node = state.nodeToAsk(now: at(now), isReady: { _ in true }) else { continue }
      asked.append(now)
      state.learned(loading, from: node, now: at(now))
    }
    #expect(asked == [0, 250, 500, 750])
  }

  @Test func aQuestionWithoutAnAnswerIsPassedOver() {
    var state = RedisClusterState(seeds: [address(1), address(2)])
    let whole = { (port: Int64) in self.slots([(0, 16_383, "10.0.0.1", port)]) }
    #expect(state.nodeToAsk(now: at(0)) { _ in true } == 0)
    #expect(state.nodeToAsk(now: at(999)) { _ in true } == nil)
    #expect(state.nodeToAsk(now: at(1000)) { _ in true } == 1)
    #expect(state.nodeToAsk(now: at(2000)) { _ in true } == nil, "both owe an answer")
    #expect(state.learned(whole(2), from: 1, now: at(2100)) == true)
    #expect(state.learned(whole(1), from: 0, now: at(2200)) == true)
    #expect(state.owner(of: 7) == 1, "an older answer than the one that is known counts for nothing")
    state.doubt(now: at(3000))
    #expect(state.nodeToAsk(now: at(3250)) { _ in true } == 0, "who answered late is asked again")
    // A late answer still counts.
    #expect(state.nodeToAsk(now: at(4250)) { _ in true } == 1)
    #expect(state.learned(whole(1), from: 0, now: at(4300)) == true && state.owner(of: 7) == 0)
    #expect(state.learned(whole(2), from: 1, now: at(4400)) == true && state.owner(of: 7) == 1)
  }

  @Test func ownersAreThoseWhoHaveSlots() {
    var state = RedisClusterState(seeds: [address(1), address(2)])
    #expect(state.ownerNumbers.isEmpty && !state.isOwner(0))
    _ = state.nodeToAsk(now: at(0)) { _ in true }
    state.learned(slots([(0, 1, "10.0.0.1", 1), (2, 16_383, "10.0.0.1", 2)]), from: 0, now: at(1))
    #expect(state.ownerNumbers == [0, 1])
    _ = state.redirect("MOVED 0 10.0.0.1:3", from: 0, now: at(2))
    #expect(state.ownerNumbers == [0, 1, 2])
    _ = state.redirect("MOVED 1 10.0.0.1:3", from: 0, now: at(3))
    _ = state.redirect("MOVED 1 10.0.0.1:3", from: 0, now: at(3))
    #expect(state.ownerNumbers == [1, 2] && !state.isOwner(0))
  }

  @Test func aNodeThatOwnsNothingIsSpareAfterAWhile() {
    var state = RedisClusterState(seeds: [address(1)])
    let whole = { (port: Int64) in self.slots([(0, 16_383, "10.0.0.1", port)]) }
    func ask(_ now: Int64) { #expect(state.nodeToAsk(now: at(now)) { $0 == 0 } == 0) }
    ask(0)
    state.learned(whole(7), from: 0, now: at(1))
    #expect(
      state.isSpare(0, now: at(1)) && !state.isSpare(1, now: at(100_000)), "a seed that was never named; an owner")
    ask(70_000)
    state.learned(whole(8), from: 0, now: at(70_000))
    #expect(state.nodes.count == 3 && !state.isSpare(1, now: at(79_999)) && state.isSpare(1, now: at(80_000)))
    _ = state.redirect("ASK 5 10.0.0.1:7", from: 2, now: at(80_000))
    #expect(!state.isSpare(1, now: at(89_999)), "named again")
    state.forget(1)
    #expect(state.nodes[1] == nil && !state.isSpare(1, now: at(100_000)))
    #expect(state.redirect("MOVED 5 10.0.0.1:9", from: 2, now: at(90_000)) == .moved(node: 1), "its number is free")
    #expect(state.owner(of: 5) == 1 && state.owner(of: 6) == 2)
  }

  @Test func redirectsAreFollowed() {
    var state = RedisClusterState(seeds: [address(1)])
    #expect(state.redirect("MOVED 42 10.0.0.1:7", from: 0, now: at(0)) == .moved(node: 1))
    #expect(state.nodes[1] == address(7) && state.owner(of: 42) == 1 && state.owner(of: 43) == 0)
    #expect(state.redirect("ASK 43 10.0.0.1:8", from: 0, now: at(0)) == .ask(node: 2))
    #expect(state.owner(of: 43) == 0, "this one time")
    #expect(state.redirect("MOVED 44 :9", from: 0, now: at(0)) == .moved(node: 3))
    #expect(state.nodes[3] == address(9), "an empty host is that of who said so")
    #expect(state.redirect("MOVED 45 fe80::1:6379", from: 0, now: at(0)) == .moved(node: 4))
    #expect(state.nodes[4] == .network(host: "fe80::1", port: 6379))
    #expect(state.redirect("TRYAGAIN Multiple keys request during rehashing of slot", from: 0, now: at(0)) == .later)
    #expect(state.redirect("CLUSTERDOWN The cluster is down", from: 0, now: at(0)) == .later)
    for wrong in [
      "MOVED", "MOVED x 10.0.0.1:1", "MOVED 16384 10.0.0.1:1", "MOVED 1 10.0.0.1", "ASK 1 10.0.0.1:99999",
      "CROSSSLOT Keys in request don't hash to the same slot", "ERR",
    ] { #expect(state.redirect(wrong, from: 0, now: at(0)) == nil, "\(wrong)") }
  }

  @Test func nodesHaveABound() {
    var state = RedisClusterState(seeds: [address(1)])
    for port in 2..<400 { _ = state.redirect("MOVED 1 10.0.0.1:\(port)", from: 0, now: at(0)) }
    #expect(state.nodes.count == RedisClusterState.nodesMaximum)
    #expect(state.redirect("MOVED 1 10.0.0.1:5000", from: 0, now: at(0)) == nil)
    state.forget(9)
    #expect(state.redirect("MOVED 1 10.0.0.1:5000", from: 0, now: at(0)) == .moved(node: 9))
  }

  @Test func nonsenseIsNoTable() {
    var state = RedisClusterState(seeds: [address(1)])
    var now: Int64 = 0
    for reply in [
      RedisReply.null, .array([]), .array([.integer(1)]), .array([.array([.integer(5), .integer(2), .array([])])]),
      slots([(0, 99_999, "10.0.0.1", 1)]), slots([(0, 16_383, "10.0.0.1", 70_000)]),
    ] {
      now += 1000
      #expect(state.nodeToAsk(now: at(now)) { _ in true } == 0)
      #expect(state.learned(reply, from: 0, now: at(now)) == false)
    }
    #expect(state.owner(of: 7) == 0)
  }
}
