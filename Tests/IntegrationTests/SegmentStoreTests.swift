import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Saved filters in a real Redis.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct SegmentStoreTests {
  private func bench(_ name: String) throws -> SegmentBench {
    try SegmentBench(url: RedisServer.shared().url, prefix: "segment-store-\(name):")
  }

  private func put(_ bench: SegmentBench, _ code: String, _ filter: String, at time: Int64 = 1) throws {
    let code = try bench.code(code)
    let filter = try bench.filter(filter)
    try bench.wait { bench.store.put(code, filter, in: bench.scope, unixMilliseconds: time, then: $0) }
  }

  private func delete(_ bench: SegmentBench, _ code: String) throws -> SegmentDeletion {
    let code = try bench.code(code)
    return try bench.wait { bench.store.delete(code, in: bench.scope, then: $0) }
  }

  @Test func whatIsPutIsShownListedAndDeleted() throws {
    let bench = try bench("crud")
    let code = try bench.code("a:1")
    #expect(try bench.wait { bench.store.entry(code, in: bench.scope, then: $0) } == nil)
    try put(bench, "a:1", #"{"tag":"é :","is":"\u0000 x"}"#, at: 5)
    try put(bench, "b", #"{"not":{"segment":"a:1"}}"#, at: 6)
    let entry = try bench.wait { bench.store.entry(code, in: bench.scope, then: $0) }
    #expect(entry == SegmentEntry(filter: .leaf(.tagIs("é :", .text("\0 x"))), putAt: 5))
    try put(bench, "a:1", #"{"has":"token"}"#, at: 7)
    let all = try bench.wait { bench.store.all(bench.scope, then: $0) }
    #expect(all.count == 2 && all[code]?.putAt == 7 && all[code]?.filter == .leaf(.hasToken))
    // Other apps have other segments.
    let other = try #require(AppScope(app: "com.example.other", environment: .sandbox))
    #expect(try bench.wait { bench.store.all(other, then: $0) }.isEmpty)
    #expect(try delete(bench, "a:1") == .isNamed(by: [try bench.code("b")]))
    #expect(try delete(bench, "b") == .deleted)
    #expect(try delete(bench, "b") == .unknown)
    #expect(try delete(bench, "a:1") == .deleted)
    #expect(try bench.wait { bench.store.all(bench.scope, then: $0) }.isEmpty)
  }

  @Test func segmentsThatLeadNowhereOrBackAreRefused() throws {
    let bench = try bench("circles")
    let (a, b, c) = (try bench.code("a"), try bench.code("b"), try bench.code("c"))
    #expect(throws: SegmentFailure.filter(.unknownSegment([b]))) { try put(bench, "a", #"{"segment":"b"}"#) }
    #expect(throws: SegmentFailure.filter(.cycle([a, a]))) { try put(bench, "a", #"{"not":{"segment":"a"}}"#) }
    try put(bench, "a", #"{"has":"token"}"#)
    try put(bench, "b", #"{"segment":"a"}"#)
    try put(bench, "c", #"{"any":[{"segment":"b"},{"segment":"a"}]}"#)
    #expect(throws: SegmentFailure.filter(.cycle([c, b, a, c]))) { try put(bench, "a", #"{"segment":"c"}"#) }
    #expect(try bench.wait { bench.store.entry(a, in: bench.scope, then: $0) }?.filter == .leaf(.hasToken))
    let filters = try bench.wait { bench.store.segments(of: .leaf(.segment(c)), in: bench.scope, then: $0) }
    #expect(Set(filters.keys) == [a, b, c])
  }

  /// More segments than fit in one answer.
  @Test func manySegmentsAreListed() throws {
    let bench = try bench("many")
    for number in 0..<300 { try put(bench, "s\(number)", #"{"tag":"n","is":\#(number)}"#, at: Int64(number)) }
    let all = try bench.wait { bench.store.all(bench.scope, then: $0) }
    let last = try bench.code("s299")
    #expect(all.count == 300 && all[last]?.putAt == 299)
  }

  @Test func whatSomebodyElseWroteIsReported() throws {
    let bench = try bench("foreign")
    try put(bench, "a", #"{"has":"token"}"#)
    let key = RegistryKeys(prefix: "segment-store-foreign:", scope: bench.scope).tag + "segments"
    _ = try RedisServer.shared().cli(["HSET", key, "a", "7 {}"])
    let code = try bench.code("a")
    #expect(throws: SegmentFailure.foreign(key: "\(key), field a")) {
      try bench.wait { bench.store.entry(code, in: bench.scope, then: $0) }
    }
    #expect(throws: SegmentFailure.foreign(key: key)) { try bench.wait { bench.store.all(bench.scope, then: $0) } }
  }
}
