import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Audiences read from a real Redis.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct SegmentEvaluatorTests {
  private static let now: Int64 = 1_796_000_123_456

  private func bench(_ name: String) throws -> SegmentBench {
    try SegmentBench(url: RedisServer.shared().url, prefix: "segments-\(name):")
  }

  private func world(seed: UInt64, chunks: Int = 3) throws -> FilterWorld {
    var random = SeededRandom(seed: seed)
    let edges = [0, OrdinalChunk.count - 1, OrdinalChunk.count, chunks * OrdinalChunk.count - 1].map(UInt32.init)
    let dense = UInt32(OrdinalChunk.count)..<UInt32(OrdinalChunk.count) + 1500
    let sparse = (0..<200).map { _ in UInt32.random(in: 0..<UInt32(chunks * OrdinalChunk.count), using: &random) }
    return FilterWorld(Set(edges + dense + sparse), now: SegmentEvaluatorTests.now, using: &random)
  }

  @Test func filtersFindWhatEachDeviceIs() throws {
    let bench = try bench("filters")
    let world = try world(seed: 1)
    try bench.put(world, ordinalCount: 3 * OrdinalChunk.count)
    var random = SeededRandom(seed: 2)
    for _ in 0..<25 {
      let filter = SegmentFilter.random(using: &random, levels: 5, conditions: 12)
      let expected = world.devices.filter { $0.value.matches(filter, now: world.now) }.keys.sorted()
      let text = String(decoding: filter.json, as: UTF8.self)
      #expect(try bench.ordinals(.filter(filter), now: world.now) == expected, "\(text)")
      let reader = try bench.reader(.filter(filter), now: world.now)
      #expect(try bench.wait { reader.count(then: $0) } == expected.count)
      // One chunk at a time, like the steps of an expansion.
      var single: [UInt32] = []
      for chunk in 0..<reader.chunkCount {
        let devices = try bench.wait { reader.evaluate(chunk: chunk, then: $0) }
        _ = devices.appendOrdinals(chunk: chunk, to: &single)
      }
      #expect(single == expected, "\(text)")
      #expect(try bench.wait { reader.evaluate(chunk: reader.chunkCount, then: $0) }.isEmpty)
    }
  }

  /// From registration to audience: filters find the registered data.
  @Test func registeredDevicesAreFound() throws {
    let bench = try bench("registered")
    var random = SeededRandom(seed: 11)
    let now = SegmentEvaluatorTests.now
    let devices = (0..<300).map { _ in FilterDevice.random(using: &random, now: now) }
    let users = devices.indices.map { "u-\($0 % 12)" }
    try bench.register(
      devices.indices.map { index in
        (registration: devices[index].registration(id: "hwid-\(index)", user: users[index]), at: devices[index].seenAt)
      })
    for _ in 0..<25 {
      let filter = SegmentFilter.random(using: &random, levels: 4, conditions: 8)
      let expected = devices.indices.filter { devices[$0].matches(filter, now: now) }.map { "hwid-\($0)" }
      let found = try bench.ids(try bench.ordinals(.filter(filter), now: now))
      #expect(found.sorted() == expected.sorted(), "\(String(decoding: filter.json, as: UTF8.self))")
    }
    let mine = try bench.ids(try bench.ordinals(.users(["u-3", "u-5"])))
    #expect(mine.sorted() == devices.indices.filter { [3, 5].contains($0 % 12) }.map { "hwid-\($0)" }.sorted())
    #expect(try bench.ids(try bench.ordinals(.devices(["hwid-7", "hwid-300"]))) == ["hwid-7"])
  }

  @Test func readingBeginsAtACursorAndEndsWhereItIsToldTo() throws {
    let bench = try bench("cursor")
    let ordinals = (0..<40).map { UInt32($0 * 20_011) }
    try bench.put(.hasToken, ordinals)
    try bench.write(bench.keys.next, Array("1000000".utf8))
    let reader = try bench.reader(.filter(try bench.filter(#"{"has":"token"}"#)))
    #expect(reader.chunkCount == 16)
    var chunks: [Int] = []
    try bench.wait { then in
      reader.stream(
        from: 4,
        each: { chunk, _ in
          chunks.append(chunk)
          return chunks.count < 5
        }, then: then)
    }
    #expect(chunks == [4, 5, 6, 7, 8])
    // Nothing comes after the end.
    #expect(bench.turn { bench.redis.isConnected } && chunks.count == 5)
    #expect(
      try bench.ordinals(.filter(try bench.filter(#"{"has":"token"}"#)), from: 3) == ordinals.filter { $0 >= 195_840 })
  }

  @Test func usersAndDevicesAreFoundByTheirNames() throws {
    let bench = try bench("names")
    let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
    let bytes = try #require(
      DeviceSet.sets(ofDevice: token).compactMap { if case .token(let bytes) = $0 { bytes } else { nil } }.first)
    let many = (0..<700).map { UInt32($0 * 301) }
    try bench.put(.user("u-1"), [5, 70_000])
    try bench.put(.user("u-2"), [70_000, 190_000])
    try bench.put(.user("many"), many)
    try bench.put(.id("hwid-1"), [9])
    try bench.put(.id("deadbeef"), [11])
    try bench.put(.token(bytes), [190_001])
    try bench.write(bench.keys.next, Array("250000".utf8))
    #expect(try bench.ordinals(.users(["u-2", "nobody", "u-1", "u-1"])) == [5, 70_000, 190_000])
    #expect(try bench.ordinals(.users(["many", "u-1"])) == Set(many + [5, 70_000]).sorted())
    #expect(try bench.ordinals(.devices(["hwid-1", "deadbeef", token, "unknown"])) == [9, 11, 190_001])
    #expect(try bench.ordinals(.devices([token.uppercased()])).isEmpty, "an unknown id")
    #expect(try bench.ordinals(.users([])).isEmpty)
    let sets: [DeviceSet] = [.user("u-2"), .user("nobody"), .user("many"), .token(bytes), .id(token), .user("u-2")]
    let found = try bench.wait { bench.evaluator.setsWithDevices(among: sets, in: bench.scope, then: $0) }
    #expect(found == [.user("u-2"), .user("many"), .token(bytes)])
  }

  @Test func aSampleIsOfTheAudience() throws {
    let bench = try bench("sample")
    let members = (0..<400).map { UInt32($0 * 500) }
    try bench.put(.hasToken, members)
    try bench.write(bench.keys.next, Array("200000".utf8))
    let reader = try bench.reader(.filter(try bench.filter(#"{"has":"token"}"#)))
    var seen: Set<UInt32> = []
    for seed in 0..<60 {
      let (ordinals, count) = try bench.wait { reader.sample(20, using: SeededRandom(seed: UInt64(seed)), then: $0) }
      #expect(
        count == 400 && ordinals.count == 20 && ordinals == Set(ordinals).sorted()
          && Set(ordinals).isSubset(of: members))
      seen.formUnion(ordinals)
    }
    // 1,200 draws of 400: one that is never drawn has a probability of 5 %, and so 20 of them are usual.
    #expect(seen.count > 350 && seen.contains { $0 > 150_000 } && seen.contains { $0 < 50_000 })
    let all = try bench.wait { reader.sample(1000, using: SeededRandom(seed: 1), then: $0) }
    #expect(all.ordinals == members)
    #expect(try bench.wait { reader.sample(0, using: SeededRandom(seed: 1), then: $0) }.count == 400)
  }

  @Test func whatTheRegistryDidNotWriteIsReported() throws {
    let bench = try bench("foreign")
    let filter = AudienceQuery.filter(try bench.filter(#"{"has":"token"}"#))
    try bench.put(.hasToken, (0..<100).map { UInt32($0) })
    try bench.write(bench.keys.next, Array("100".utf8))
    let chunk = bench.keys.chunk(0, of: DeviceSetName(.hasToken))
    try bench.write(chunk, Array("odd".utf8))
    #expect(throws: SegmentFailure.foreign(key: chunk)) { try bench.ordinals(filter) }
    try bench.write(bench.keys.next, Array("many".utf8))
    #expect(throws: SegmentFailure.foreign(key: bench.keys.next)) { try bench.ordinals(filter) }
    let unknown = AudienceQuery.segment(try bench.code("nowhere"))
    #expect(throws: SegmentFailure.filter(.unknownSegment([try bench.code("nowhere")]))) { try bench.reader(unknown) }
  }

  @Test func aRedisThatIsAwayIsAFailureInTime() throws {
    let bench = try SegmentBench(url: "redis://127.0.0.1:\(LoopbackPort.free())/0", prefix: "away:")
    let filter = try bench.filter(#"{"segment":"a"}"#)
    #expect(throws: SegmentFailure.self) { try bench.reader(.filter(filter)) }
  }

  @Test func inAClusterToo() throws {
    let cluster = try RedisCluster()
    defer { for master in cluster.masters { master.stop() } }
    let bench = try SegmentBench(url: cluster.url, prefix: "push:")
    let world = try world(seed: 5, chunks: 2)
    try bench.put(world, ordinalCount: 2 * OrdinalChunk.count)
    let filter = try bench.filter(
      #"{"all":[{"not":{"locale":"en"}},{"any":[{"tag":"level","at_least":1},{"has":"token"}]}]}"#)
    let code = try bench.code("cluster")
    try bench.wait { bench.store.put(code, filter, in: bench.scope, unixMilliseconds: 1, then: $0) }
    let expected = world.devices.filter { $0.value.matches(filter, now: world.now) }.keys.sorted()
    #expect(try bench.ordinals(.segment(code), now: world.now) == expected)
  }
}
