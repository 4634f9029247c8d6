/// How to evaluate a filter: the sets of devices it needs, and the steps for each chunk.
///
/// Valid for one evaluation: it contains the days and the OS versions of its time.
package struct FilterPlan: Sendable {
  /// The sets, each once. Steps refer to them by index.
  package private(set) var sets: [DeviceSet] = []
  private(set) var steps: [FilterStep] = []
  private(set) var registerCount = 1

  private var indexes: [DeviceSet: Int] = [:]
  private var osVersions: [OSVersion] = []
  private var today: Int32 = 0

  /// - Parameters:
  ///   - segments: all that the filter names, directly or through other segments.
  ///   - unixMilliseconds: the base of `seen_within`. Days are whole days in UTC: 30 days are the last 30, today, and
  ///     tomorrow, for devices with a fast clock.
  ///   - osVersions: all that devices of the app and environment have ever had.
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

  /// Devices in at least one of these sets.
  package init(anyOf sets: [DeviceSet]) {
    steps.append(.clear(0))
    for set in sets { steps.append(.unite(index(set), 0)) }
  }

  /// Whether a chunk can have a device of the filter. If small sets decide it, large sets need not be read.
  /// - Parameter isThere: whether the set with this index can have a device in the chunk.
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

  /// Sets the register to the filter's devices. The registers above it are free.
  private mutating func assign(_ filter: SegmentFilter, _ target: Int) {
    use(target)
    switch filter {
    case .all(let filters):
      // A subtraction needs a set to subtract from.
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

  /// Also uses the register above the target.
  private mutating func compare(_ kind: FilterComparison.Kind, _ tag: String, _ number: Double, _ target: Int) {
    use(target + 1)
    let bits = SortableNumber.bits(number)
    // A number that is equal down to the lowest set bit is at least this large, whatever its other bits are.
    let lowest = kind == .atLeast ? bits.trailingZeroBitCount : 0
    let numbers = index(.tagIsNumber(tag))
    var planes: [Int] = []
    for bit in stride(from: 63, through: lowest, by: -1) { planes.append(index(.tagBit(tag, UInt8(bit)))) }
    steps.append(.compare(FilterComparison(kind: kind, bits: bits, numbers: numbers, planes: planes), target))
  }

  // MARK: - Conditions

  /// A device is in at least one of these sets; with `comparisons(of:)` they are the whole condition.
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
