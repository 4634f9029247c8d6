/// How a filter is evaluated: which sets of devices it needs, and what is done with them, one chunk after another.
///
/// Made once for an evaluation: it holds the days and the OS versions of its time.
package struct FilterPlan: Sendable {
  /// The sets, each once. Steps name them by their index.
  package private(set) var sets: [DeviceSet] = []
  private(set) var steps: [FilterStep] = []
  private(set) var registerCount = 1

  private var indexes: [DeviceSet: Int] = [:]
  private var osVersions: [OSVersion] = []
  private var today: Int32 = 0

  /// - Parameters:
  ///   - segments: all that the filter names, and that those name.
  ///   - unixMilliseconds: the time that `seen_within` counts from. Its days are those of UTC and whole: of 30 days the last 30 and
  ///     today count, and tomorrow, where a device's clock may be.
  ///   - osVersions: all that devices of the app and environment ever had.
  package init(
    _ filter: SegmentFilter, segments: [SegmentCode: SegmentFilter] = [:], unixMilliseconds: Int64,
    osVersions: [OSVersion]
  ) throws(FilterPlanError) {
    let filter = try FilterResolution.resolve(filter, segments: segments)
    let length: Int64 = 86_400_000
    let day = unixMilliseconds >= 0 ? unixMilliseconds / length : (unixMilliseconds + 1) / length - 1
    today = Int32(max(-1_000_000, min(1_000_000, day)))
    self.osVersions = osVersions
    assign(filter, 0)
  }

  /// Devices that are in one of these sets at least.
  package init(anyOf sets: [DeviceSet]) {
    steps.append(.clear(0))
    for set in sets { steps.append(.unite(index(set), 0)) }
  }

  /// Whether a chunk can have a device of the filter. So it is known without a look at large sets where small ones decide.
  /// - Parameter isThere: whether a set can have a device in the chunk, by its index.
  package func canMatch(_ isThere: (Int) -> Bool) -> Bool {
    var registers = Array(repeating: false, count: registerCount)
    for step in steps {
      switch step {
      case .clear(let target): registers[target] = false
      case .unite(let set, let target): registers[target] = registers[target] || isThere(set)
      case .intersect(let set, let target): registers[target] = registers[target] && isThere(set)
      case .uniteNext(let target): registers[target] = registers[target] || registers[target + 1]
      case .intersectNext(let target): registers[target] = registers[target] && registers[target + 1]
      case .subtract, .subtractNext: break
      case .compare(let comparison, let target): registers[target] = isThere(comparison.numbers)
      }
    }
    return registers[0]
  }

  // MARK: - Making steps

  private mutating func index(_ set: DeviceSet) -> Int {
    if let index = indexes[set] { return index }
    indexes[set] = sets.count
    sets.append(set)
    return sets.count - 1
  }

  private mutating func use(_ register: Int) { registerCount = max(registerCount, register + 1) }

  /// The register becomes the filter's devices. Registers above it are free.
  private mutating func assign(_ filter: SegmentFilter, _ target: Int) {
    use(target)
    switch filter {
    case .all(let filters):
      // What is subtracted needs something to be subtracted from.
      let positive = filters.filter { if case .not = $0 { false } else { true } }
      if let first = positive.first { assign(first, target) } else { assignEveryone(target) }
      for filter in positive.dropFirst() { intersect(filter, target) }
      for case .not(let filter) in filters { subtract(filter, target) }
    case .not(let filter):
      assignEveryone(target)
      subtract(filter, target)
    case .leaf(.tagIs(let tag, .number(let number))):
      compare(.equal, tag, number, target)
    case .leaf(.tagAtLeast(let tag, let number)):
      compare(.atLeast, tag, number, target)
    case .leaf(.tagAtMost(let tag, let number)):
      compare(.atMost, tag, number, target)
    case .any, .leaf:
      steps.append(.clear(target))
      unite(filter, target)
    }
  }

  private mutating func assignEveryone(_ target: Int) {
    steps.append(.clear(target))
    steps.append(.unite(index(.everyone), target))
  }

  private mutating func unite(_ filter: SegmentFilter, _ target: Int) {
    switch filter {
    case .any(let filters):
      for filter in filters { unite(filter, target) }
    case .leaf(let condition):
      for set in sets(of: condition) { steps.append(.unite(index(set), target)) }
      for (tag, kind, number) in comparisons(of: condition) {
        compare(kind, tag, number, target + 1)
        steps.append(.uniteNext(target))
      }
    case .all, .not:
      assign(filter, target + 1)
      steps.append(.uniteNext(target))
    }
  }

  private mutating func intersect(_ filter: SegmentFilter, _ target: Int) {
    if case .leaf(let condition) = filter, comparisons(of: condition).isEmpty {
      let sets = sets(of: condition)
      if sets.count == 1 { return steps.append(.intersect(index(sets[0]), target)) }
    }
    assign(filter, target + 1)
    steps.append(.intersectNext(target))
  }

  private mutating func subtract(_ filter: SegmentFilter, _ target: Int) {
    if case .leaf(let condition) = filter, comparisons(of: condition).isEmpty {
      for set in sets(of: condition) { steps.append(.subtract(index(set), target)) }
      return
    }
    assign(filter, target + 1)
    steps.append(.subtractNext(target))
  }

  /// It needs the register above its target.
  private mutating func compare(_ kind: FilterComparison.Kind, _ tag: String, _ number: Double, _ target: Int) {
    use(target + 1)
    let bits = SortableNumber.bits(number)
    // Those that are equal down to the lowest bit that is set are at least so much, whatever their other bits are.
    let lowest = kind == .atLeast ? bits.trailingZeroBitCount : 0
    let numbers = index(.tagIsNumber(tag))
    var planes: [Int] = []
    for bit in stride(from: 63, through: lowest, by: -1) { planes.append(index(.tagBit(tag, UInt8(bit)))) }
    steps.append(.compare(FilterComparison(kind: kind, bits: bits, numbers: numbers, planes: planes), target))
  }

  // MARK: - Conditions

  /// The sets of which a device is in one at least; with `comparisons(of:)` the whole condition.
  private func sets(of condition: SegmentCondition) -> [DeviceSet] {
    switch condition {
    case .tagIs(let tag, let value): FilterPlan.set(tag, value).map { [$0] } ?? []
    case .tagIn(let tag, let values): values.compactMap { FilterPlan.set(tag, $0) }
    case .tagAtLeast, .tagAtMost: []
    case .tagExists(let tag): [.tagExists(tag)]
    case .locale(let locale): [.locale(locale)]
    case .osAtLeast(let least): osVersions.filter { $0 >= least }.map(DeviceSet.osVersion)
    case .seenWithin(let days): (today - days...today + 1).map(DeviceSet.seen(day:))
    case .hasToken: [.hasToken]
    case .hasPushToStart("*"): [.hasPushToStart("*")]
    case .hasPushToStart(let type): [.hasPushToStart(type), .hasPushToStart("*")]
    case .segment(let code): preconditionFailure("the segment \(code) was resolved before")
    }
  }

  private func comparisons(
    of condition: SegmentCondition
  ) -> [(tag: String, kind: FilterComparison.Kind, number: Double)] {
    switch condition {
    case .tagIs(let tag, .number(let number)): [(tag, .equal, number)]
    case .tagIn(let tag, let values):
      values.compactMap { if case .number(let number) = $0 { (tag, .equal, number) } else { nil } }
    case .tagAtLeast(let tag, let number): [(tag, .atLeast, number)]
    case .tagAtMost(let tag, let number): [(tag, .atMost, number)]
    default: []
    }
  }

  private static func set(_ tag: String, _ value: SegmentValue) -> DeviceSet? {
    switch value {
    case .text(let text): .tagText(tag, text)
    case .flag(let flag): .tagFlag(tag, flag)
    case .number: nil
    }
  }
}
