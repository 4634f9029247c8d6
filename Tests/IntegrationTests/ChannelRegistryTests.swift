import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Names and channels over a real Redis, with an APNs that loses answers.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct ChannelRegistryTests {
  private func bench(registries: Int = 1, limit: Int = 100) throws -> ChannelRegistryBench {
    try ChannelRegistryBench(url: RedisServer.shared().url, registries: registries, limit: limit)
  }

  @Test func oneNameIsOneChannelHoweverManyAsk() throws {
    let bench = try bench(registries: 8)
    var results: [String: [ChannelEnsureState.Result]] = [:]
    var failures: [ChannelRegistryFailure] = []
    bench.manager.answerMilliseconds = 20
    for round in 0..<5 {
      for registry in bench.registries {
        let name = try bench.name("event-\(round)")
        registry.settle(name, in: bench.scope, .ensure(.none)) { result in
          switch result {
          case .success(let settled): results[name.text, default: []] += settled.map { [$0] } ?? []
          case .failure(let failure): failures.append(failure)
          }
        }
      }
    }
    let isDone = bench.turn { results.values.reduce(0) { $0 + $1.count } == 40 }
    #expect(isDone, "\(failures)")
    #expect(failures.isEmpty && bench.manager.createCount == 5 && bench.manager.channels.count == 5)
    for (name, settled) in results {
      #expect(Set(settled.map(\.id)).count == 1, "\(name)")
      #expect(settled.count { $0.origin == .created } == 1, "\(name)")
    }
    let snapshot = try bench.snapshot()
    #expect(snapshot.names.count == 5 && snapshot.intents.isEmpty)
  }

  /// As many as an app can have: a list of them waits for few answers, one after the other, and asks APNs once.
  @Test func tenThousandAreListedWithFewCommands() throws {
    let redis = try RedisServer()
    let bench = try ChannelRegistryBench(url: redis.url, limit: ChannelLimit.apple)
    let keys = bench.registries[0].keys(bench.scope)
    let count = ChannelLimit.apple
    for _ in 0..<count { bench.manager.add(.none) }
    try redis.cli([
      "EVAL",
      """
      for number = 0, ARGV[1] - 1 do
        local id = 'Y2hhbm5lbC0' .. number
        redis.call('HSET', KEYS[1], 'event-' .. number, id)
        redis.call('HSET', KEYS[2], id, '0\\t1796000000000\\t\\tevent-' .. number)
        redis.call('ZADD', KEYS[3], 1796000000, id)
      end
      """, "3", keys.names, keys.ids, keys.used, "\(count)",
    ])
    try redis.cli(["CONFIG", "RESETSTAT"])
    let listed = try bench.wait { bench.registries[0].list(bench.scope, then: $0) }
    let known = try bench.snapshot()
    #expect(listed.ids.count == count && bench.manager.listCount == 1)
    #expect(listed.ids.count { known.name(of: $0) != nil } == count)
    let calls = try redis.cli(["INFO", "commandstats"]).split(whereSeparator: \.isNewline).compactMap { line -> Int? in
      guard ["hscan:", "zscan:", "set:"].contains(where: { line.hasPrefix("cmdstat_" + $0) }) else { return nil }
      return line.firstRange(of: "calls=").flatMap { Int(line[$0.upperBound...].prefix { $0 != "," }) }
    }
    // A thousand in an answer, or a few less.
    #expect(calls.reduce(0, +) <= 50, "\(calls)")
  }

  @Test func anotherPolicyAndAnotherRequestAreConflicts() throws {
    let bench = try bench()
    let made = try bench.ensure("match", .mostRecent)
    #expect(made.origin == .created && made.entry.storage == .mostRecent)
    #expect(throws: ChannelRegistryFailure.self) { try bench.ensure("match", .none) }
    let name = try bench.name("match")
    #expect(throws: ChannelRegistryFailure.exists(name, made.id)) {
      _ = try bench.wait {
        bench.registries[0].settle(name, in: bench.scope, .create(.mostRecent, request: "r1"), then: $0)
      }
    }
    // The same request again gets the channel that the first one created.
    let own = try bench.name("own")
    for _ in 0..<2 {
      let settled = try bench.wait {
        bench.registries[0].settle(own, in: bench.scope, .create(.none, request: "r2"), then: $0)
      }
      #expect(settled?.entry.request == "r2")
    }
    #expect(bench.manager.createCount == 2)
  }

  @Test func aLostAnswerMakesNoSecondChannel() throws {
    let bench = try bench()
    let stranger = bench.manager.add(.none)
    bench.manager.createsToLose = 1
    let settled = try bench.ensure("match")
    #expect(settled.origin == .adopted && settled.id != stranger)
    #expect(bench.manager.createCount == 1 && bench.manager.channels.count == 2)
    #expect(bench.registries[0].counters.adopted == 1)
    #expect(try bench.ensure("match").id == settled.id)
    #expect(try bench.snapshot().intents.isEmpty)
  }

  @Test func aDeadHoldersChannelIsFound() throws {
    let bench = try bench(registries: 2)
    bench.manager.answerMilliseconds = 50
    bench.manager.afterCreate = { bench.kill(0) }
    bench.registries[0].settle(try bench.name("match"), in: bench.scope, .ensure(.none)) { _ in }
    #expect(bench.turn { bench.manager.createCount == 1 })
    let settled = try bench.ensure("match", registry: 1)
    #expect(settled.origin == .adopted)
    #expect(bench.manager.createCount == 1 && bench.manager.channels.count == 1)
  }

  @Test func aHolderThatMadeNothingIsFollowed() throws {
    let bench = try bench(registries: 2)
    bench.manager.answerMilliseconds = 50
    bench.manager.afterCreate = {
      bench.kill(0)
      // APNs did not carry it out after all.
      if let id = bench.manager.channels.keys.first { bench.manager.remove(id) }
    }
    bench.registries[0].settle(try bench.name("match"), in: bench.scope, .ensure(.none)) { _ in }
    #expect(bench.turn { bench.manager.createCount == 1 })
    let settled = try bench.ensure("match", .mostRecent, registry: 1)
    #expect(settled.origin == .created && settled.entry.storage == .mostRecent)
    #expect(bench.manager.channels == [settled.id: .mostRecent])
  }

  /// Two made one each, and a list of the second one's stored the first one's channel as somebody else's: its creator deletes it.
  @Test func aChannelMadeInVainIsDeletedAlthoughAListHasIt() throws {
    let bench = try bench(registries: 2)
    bench.manager.answerMilliseconds = 300
    var first: ChannelEnsureState.Result?
    bench.registries[0].settle(try bench.name("match"), in: bench.scope, .ensure(.none)) { result in
      if case .success(let settled?) = result { first = settled }
    }
    #expect(bench.turn { bench.manager.createCount == 1 })
    let vain = Array(bench.manager.channels.keys)
    let keys = bench.registries[1].keys(bench.scope)
    let command = ["DEL", keys.intents, keys.lock(try bench.name("match"))]
    _ = try bench.wait { bench.registries[1].ask(command, key: keys.intents, then: $0) }
    #expect(try bench.wait { bench.registries[1].learn(vain, in: bench.scope, isForced: false, then: $0) } == 1)
    bench.manager.answerMilliseconds = 1
    let settled = try bench.ensure("match", registry: 1)
    #expect(settled.origin == .created)
    #expect(bench.turn { first != nil })
    #expect(first?.id == settled.id && first?.origin == .found)
    #expect(bench.manager.channels == [settled.id: .none])
    #expect(bench.registries[0].counters.discarded == 1)
    #expect(try bench.snapshot().entries.keys.sorted { $0.text < $1.text } == [settled.id])
  }

  /// Who looks for the channel of a lost create finds one that another made in vain, and asks APNs for it; before that is answered, its
  /// creator has deleted it and nobody knows it any more.
  @Test func channelThatIsDiscardedDuringASearch_isNotAdopted() throws {
    let bench = try bench(registries: 3)
    var first: ChannelEnsureState.Result?
    bench.manager.isHeld = { if case .create = $0 { true } else { false } }
    bench.registries[0].settle(try bench.name("match"), in: bench.scope, .ensure(.none)) { result in
      if case .success(let settled?) = result { first = settled }
    }
    #expect(bench.turn { bench.manager.heldCount == 1 })
    let vain = try #require(bench.manager.channels.keys.first)
    // It loses its lock, and another gives the name a channel.
    let keys = bench.registries[1].keys(bench.scope)
    let command = ["DEL", keys.intents, keys.lock(try bench.name("match"))]
    _ = try bench.wait { bench.registries[1].ask(command, key: keys.intents, then: $0) }
    bench.manager.isHeld = { if case .read = $0 { true } else { false } }
    let settled = try bench.ensure("match", registry: 1)
    #expect(settled.origin == .created && settled.id != vain)
    // A third one searches.
    _ = try bench.wait {
      bench.registries[2].ask(["HSET", keys.intents, "other", "0\t1\tdead\t"], key: keys.intents, then: $0)
    }
    var other: ChannelEnsureState.Result?
    bench.registries[2].settle(try bench.name("other"), in: bench.scope, .ensure(.none)) { result in
      if case .success(let settled?) = result { other = settled }
    }
    #expect(bench.turn { bench.manager.heldCount == 2 })
    bench.manager.answerHeld()
    #expect(bench.turn { first != nil })
    #expect(first?.id == settled.id && bench.registries[0].counters.discarded == 1)
    bench.manager.isHeld = { _ in false }
    bench.manager.answerHeld()
    #expect(bench.turn { other != nil })
    #expect(other?.id != vain && other?.origin == .created)
    #expect(bench.manager.channels.count == 2)
    #expect(try bench.snapshot().names.values.allSatisfy { bench.manager.channels[$0] != nil })
  }

  /// Redis failed over, and has lost whose a channel is: a create that nobody answers adopts it for no other name.
  @Test(arguments: ["match-2", "activity:match-2"]) func channelWhoseNameRedisLost_isNotAdopted(_ name: String) throws {
    let bench = try bench()
    let first = try bench.ensure("activity:match-1")
    let keys = bench.registries[0].keys(bench.scope)
    for command in [["HDEL", keys.ids, first.id.text], ["HDEL", keys.names, "activity:match-1"]] {
      _ = try bench.wait { bench.registries[0].ask(command, key: keys.ids, then: $0) }
    }
    try bench.addRegistry()
    bench.manager.createsToLose = 1
    bench.manager.afterCreate = {
      for id in bench.manager.channels.keys where id != first.id { bench.manager.remove(id) }
    }
    let second = try bench.ensure(name, registry: 1)
    #expect(second.id != first.id && second.origin == .created)
    #expect(bench.manager.createCount == 3 && bench.registries[1].counters.adopted == 0)
  }

  /// Its name was lost after the create was begun, which is too late to be noted.
  @Test func channelThatAnActivityHolds_isNotAdopted() throws {
    let bench = try bench()
    let first = try bench.ensure("match-1")
    var held: ChannelID?
    bench.registries[0].inUse = { $1(.success(Set([held].compactMap(\.self)))) }
    bench.manager.createsToLose = 1
    bench.manager.afterCreate = {
      // The one that was made goes, and another's comes.
      for id in bench.manager.channels.keys where id != first.id { bench.manager.remove(id) }
      held = bench.manager.add(.none)
    }
    let second = try bench.ensure("match-2")
    #expect(held != nil && second.id != held && second.origin == .created)
  }

  @Test func strangersChannelsAreNotTaken() throws {
    let bench = try bench(registries: 1)
    bench.manager.createsToLose = 1
    // Another sender creates one at the same time: it is unknown which of the two is ours.
    bench.manager.afterCreate = { bench.manager.add(.none) }
    let settled = try bench.ensure("match")
    #expect(settled.origin == .created && bench.manager.createCount == 2)
    #expect(bench.registries[0].counters.undecided == 1)
    #expect(bench.notices.contains { $0.contains("another sender creates channels") })
    #expect(try bench.snapshot().entries.count == 3, "the others are stored without an owner")
  }

  @Test func theLimitIsReportedBeforeItIsReached() throws {
    let bench = try bench(limit: 10)
    for number in 0..<10 { _ = try bench.ensure("event-\(number)") }
    #expect(bench.notices.contains { $0.contains("has 8 of at most 10 channels; delete") }, "\(bench.notices)")
    #expect(throws: ChannelRegistryFailure.full(bench.scope, count: 10, maximum: 10)) {
      try bench.ensure("one-too-many")
    }
    #expect(bench.manager.createCount == 10 && bench.manager.listCount == 1, "counted, not listed each time")
    let first = try bench.ensure("event-0")
    _ = try bench.wait { bench.registries[0].delete(first.id, in: bench.scope, then: $0) }
    #expect(try bench.ensure("one-more").origin == .created, "there is room again")
    #expect(try bench.ensure("event-1").origin == .found)
  }

  @Test func aChannelThatIsGoneIsForgotten() throws {
    let bench = try bench()
    let first = try bench.ensure("match")
    bench.manager.remove(first.id)
    #expect(throws: ChannelRegistryFailure.self) {
      _ = try bench.wait { bench.registries[0].read(first.id, in: bench.scope, then: $0) }
    }
    let second = try bench.ensure("match")
    #expect(second.origin == .created && second.id != first.id)
    // Redis keeps APNs' answer: the next read does not reach APNs.
    let stranger = bench.manager.add(.mostRecent)
    for _ in 0..<2 {
      let storage = try bench.wait { bench.registries[0].storage(of: stranger, in: bench.scope, then: $0) }
      #expect(storage == .mostRecent)
    }
    #expect(try bench.snapshot().entries[stranger]?.storage == .mostRecent)
    bench.registries[0].use([stranger], in: bench.scope, unixSeconds: 17)
    bench.registries[0].use([stranger], in: bench.scope, unixSeconds: 5)
    #expect(bench.turn { (try? bench.snapshot().used[stranger]) == 17 })
  }

  @Test func inAClusterToo() throws {
    let cluster = try RedisCluster()
    defer { for master in cluster.masters { master.stop() } }
    let bench = try ChannelRegistryBench(url: cluster.url, registries: 3)
    bench.manager.createsToLose = 1
    let first = try bench.ensure("match", .mostRecent)
    #expect(first.origin == .adopted)
    for index in 1..<3 { #expect(try bench.ensure("match", .mostRecent, registry: index).id == first.id) }
    #expect(bench.manager.createCount == 1)
    #expect(try bench.snapshot().names.count == 1)
  }
}
