import PushCore
import TestSupport
import Testing

/// Filters over sets of devices, against each device by itself.
@Suite struct FilterPlanTests {
  private static let now: Int64 = 1_796_000_123_456

  /// What a plan finds in all chunks, and whether it said beforehand where nothing can be.
  private func found(_ plan: FilterPlan, _ world: FilterWorld, chunks: Range<Int>) throws -> [UInt32] {
    var evaluation = FilterEvaluation(plan)
    var ordinals: [UInt32] = []
    for chunk in chunks {
      let parts = try plan.sets.map { set in
        guard let ordinals = world.sets[set] else { return ChunkPart.none }
        if ordinals.count <= 15 { return ChunkPart(ordinals: ordinals, chunk: chunk) }
        return try #require(world.value(set, chunk: chunk).map { ChunkPart(value: $0) } ?? ChunkPart.none)
      }
      evaluation.evaluate(parts)
      let isEmpty = evaluation.result.isEmpty
      #expect(isEmpty || plan.canMatch { !parts[$0].isEmpty })
      let before = ordinals.count
      #expect(evaluation.result.appendOrdinals(chunk: chunk, to: &ordinals) == nil)
      #expect(evaluation.result.count == ordinals.count - before && isEmpty == (before == ordinals.count))
    }
    return ordinals
  }

  private func check(_ filter: SegmentFilter, _ world: FilterWorld, chunks: Range<Int>) throws {
    let plan = try FilterPlan(filter, unixMilliseconds: world.now, osVersions: world.osVersions)
    let expected = world.devices.filter { $0.value.matches(filter, now: world.now) }.keys.sorted()
    let text = String(decoding: filter.json, as: UTF8.self)
    #expect(try found(plan, world, chunks: chunks) == expected, "\(text)")
  }

  @Test(arguments: 0..<6)
  func filtersFindWhatEachDeviceIs(seed: UInt64) throws {
    var random = SeededRandom(seed: seed)
    // Sparse and dense, so that sets are small, lists and bitmaps; and at the edges of chunks.
    let edges = [0, 63, 64, OrdinalChunk.count - 1, OrdinalChunk.count, 3 * OrdinalChunk.count - 1].map(UInt32.init)
    let dense = UInt32(OrdinalChunk.count)..<UInt32(OrdinalChunk.count) + UInt32(seed) * 500
    let sparse = (0..<300).map { _ in UInt32.random(in: 0..<UInt32(3 * OrdinalChunk.count), using: &random) }
    let world = FilterWorld(
      Set(edges + dense + sparse), now: FilterPlanTests.now + Int64(seed) * 9_000_000, using: &random)
    for _ in 0..<12 {
      try check(SegmentFilter.random(using: &random, levels: 5, conditions: 12), world, chunks: 0..<3)
    }
  }

  /// Each condition alone, and its opposite.
  @Test func everyConditionFindsWhatEachDeviceIs() throws {
    var random = SeededRandom(seed: 7)
    let world = FilterWorld(0..<1500, now: FilterPlanTests.now, using: &random)
    for _ in 0..<60 {
      let condition = SegmentFilter.leaf(.random(using: &random))
      try check(condition, world, chunks: 0..<1)
      try check(.not(condition), world, chunks: 0..<1)
      try check(.not(.not(condition)), world, chunks: 0..<1)
      try check(.all([.not(condition), .leaf(.hasToken)]), world, chunks: 0..<1)
    }
  }

  @Test func anyOfSetsIsTheirUnion() throws {
    var random = SeededRandom(seed: 3)
    let world = FilterWorld(0..<40, now: FilterPlanTests.now, using: &random)
    let sets: [DeviceSet] = [.hasToken, .locale("en"), .user("nobody"), .hasToken]
    let plan = FilterPlan(anyOf: sets)
    #expect(plan.sets.count == 3)
    #expect(try found(plan, world, chunks: 0..<1) == Set(sets.flatMap { world.sets[$0] ?? [] }).sorted())
    #expect(try found(FilterPlan(anyOf: []), world, chunks: 0..<1) == [])
  }

  @Test func numbersNeedOnlyTheBitsThatDecide() throws {
    func setCount(_ condition: SegmentCondition) throws -> Int {
      try FilterPlan(.leaf(condition), unixMilliseconds: 0, osVersions: []).sets.count
    }
    #expect(try setCount(.tagAtLeast("level", 1)) == 1 + 12)
    #expect(try setCount(.tagAtLeast("level", 0)) == 1 + 1)
    #expect(try setCount(.tagAtMost("level", 1)) == 1 + 64)
  }

  @Test func seenWithinTakesWholeDays() throws {
    func days(at time: Int64) throws -> [Int32] {
      let plan = try FilterPlan(.leaf(.seenWithin(days: 2)), unixMilliseconds: time, osVersions: [])
      return plan.sets.compactMap { if case .seen(let day) = $0 { day } else { nil } }
    }
    #expect(try days(at: 20_000 * 86_400_000) == [19_998, 19_999, 20_000, 20_001])
    #expect(try days(at: 20_001 * 86_400_000 - 1) == [19_998, 19_999, 20_000, 20_001])
    #expect(try days(at: -1) == [-3, -2, -1, 0])
  }

  // MARK: - Segments

  private func code(_ text: String) throws -> SegmentCode { try #require(SegmentCode(text)) }

  private func refusal(_ filter: String, _ segments: [String: String]) throws -> String {
    var filters: [SegmentCode: SegmentFilter] = [:]
    for (name, text) in segments { filters[try code(name)] = try SegmentFilterParser.parse(Array(text.utf8)) }
    let filter = try SegmentFilterParser.parse(Array(filter.utf8))
    do throws(FilterPlanError) {
      return "\(try FilterPlan(filter, segments: filters, unixMilliseconds: 0, osVersions: []).sets.count) sets"
    } catch {
      return error.description
    }
  }

  @Test func segmentsArePutInTheirPlace() throws {
    var random = SeededRandom(seed: 9)
    let world = FilterWorld(0..<300, now: FilterPlanTests.now, using: &random)
    let inner = SegmentFilter.any([.leaf(.locale("it")), .not(.leaf(.tagExists("plan")))])
    let segments = [try code("a"): SegmentFilter.not(.leaf(.segment(try code("b")))), try code("b"): inner]
    let filter = SegmentFilter.all([.leaf(.hasToken), .leaf(.segment(try code("a")))])
    let plan = try FilterPlan(filter, segments: segments, unixMilliseconds: world.now, osVersions: [])
    let expected = world.devices.filter {
      $0.value.matches(.all([.leaf(.hasToken), .not(inner)]), now: world.now)
    }
    #expect(try found(plan, world, chunks: 0..<1) == expected.keys.sorted())
    // One segment twice is no circle.
    #expect(try refusal(#"{"all":[{"segment":"s"},{"not":{"segment":"s"}}]}"#, ["s": #"{"has":"token"}"#]) == "1 sets")
  }

  @Test func whatCannotBePutInItsPlaceIsRefused() throws {
    #expect(try refusal(#"{"segment":"s"}"#, [:]) == "names the segment s, which does not exist")
    #expect(
      try refusal(#"{"segment":"a"}"#, ["a": #"{"segment":"b"}"#])
        == "names the segment b, which does not exist (a → b)")
    #expect(
      try refusal(#"{"segment":"a"}"#, ["a": #"{"not":{"segment":"b"}}"#, "b": #"{"segment":"a"}"#])
        == "leads back to the segment a (a → b → a)")
    var chain: [String: String] = ["s8": #"{"has":"token"}"#]
    for number in 1..<8 { chain["s\(number)"] = #"{"segment":"s\#(number + 1)"}"# }
    #expect(try refusal(#"{"segment":"s1"}"#, chain) == "1 sets")
    chain["s0"] = #"{"segment":"s1"}"#
    #expect(try refusal(#"{"segment":"s0"}"#, chain).hasPrefix("leads through more than 8 nested segments"))
    // Ten times ten times ten conditions: refused before they are made.
    let ten = { (name: String) in
      #"{"any":["# + Array(repeating: #"{"segment":"\#(name)"}"#, count: 10).joined(separator: ",") + "]}"
    }
    let wide = ["a": ten("b"), "b": ten("c"), "c": ten("d"), "d": #"{"has":"token"}"#]
    #expect(try refusal(#"{"segment":"a"}"#, wide).hasPrefix("has more than 256 conditions, including those of its"))
  }
}
