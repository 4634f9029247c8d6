package import PushCore

/// Filters of chance, within all bounds.
extension SegmentFilter {
  /// At most so many levels and conditions.
  package static func random(
    using random: inout SeededRandom, levels: Int = SegmentLimits.depthMaximum,
    conditions: Int = SegmentLimits.conditionsMaximum
  ) -> SegmentFilter {
    var left = Int.random(in: 1...conditions, using: &random)
    return make(levels, &left, &random)
  }

  private static func make(_ levels: Int, _ left: inout Int, _ random: inout SeededRandom) -> SegmentFilter {
    guard levels > 1, left > 1, Int.random(in: 0..<4, using: &random) > 0 else {
      left -= 1
      return .leaf(.random(using: &random))
    }
    if Int.random(in: 0..<4, using: &random) == 0 { return .not(make(levels - 1, &left, &random)) }
    var parts: [SegmentFilter] = []
    for _ in 0..<Int.random(in: 1...4, using: &random) where parts.isEmpty || left > 0 {
      parts.append(make(levels - 1, &left, &random))
    }
    return Bool.random(using: &random) ? .all(parts) : .any(parts)
  }
}

extension SegmentCondition {
  package static func random(using random: inout SeededRandom) -> SegmentCondition {
    let tag = ["plan", "level", "teams", "a\"b", "é :", "vip"].randomElement(using: &random) ?? "plan"
    switch Int.random(in: 0..<11, using: &random) {
    case 0, 1: return .tagIs(tag, .random(using: &random))
    case 2:
      var values: [SegmentValue] = []
      for _ in 0...Int.random(in: 0..<4, using: &random) {
        let value = SegmentValue.random(using: &random)
        if !values.contains(value) { values.append(value) }
      }
      return .tagIn(tag, values)
    case 3: return .tagAtLeast(tag, SegmentValue.randomNumber(using: &random))
    case 4: return .tagAtMost(tag, SegmentValue.randomNumber(using: &random))
    case 5: return .tagExists(tag)
    case 6: return .locale(["en", "en-gb", "it", "zh-hans-cn"].randomElement(using: &random) ?? "en")
    case 7:
      return .osAtLeast(
        OSVersion(
          major: .random(in: 15...19, using: &random), minor: .random(in: 0...2, using: &random),
          patch: .random(in: 0...1, using: &random)))
    case 8: return .seenWithin(days: .random(in: 1...40, using: &random))
    case 9: return .hasToken
    default: return .hasPushToStart(["*", "Ride", "Order:\"1\""].randomElement(using: &random) ?? "*")
    }
  }
}

extension SegmentValue {
  package static func random(using random: inout SeededRandom) -> SegmentValue {
    switch Int.random(in: 0..<4, using: &random) {
    case 0: .number(randomNumber(using: &random))
    case 1: .flag(Bool.random(using: &random))
    default: .text(["gold", "silver", "", "\u{1}\\", "日本"].randomElement(using: &random) ?? "gold")
    }
  }

  /// Small ones for the most part, so that devices and filters meet; at times any that is finite.
  package static func randomNumber(using random: inout SeededRandom) -> Double {
    switch Int.random(in: 0..<10, using: &random) {
    case 0:
      let number = Double(bitPattern: random.next())
      return number.isFinite && number != 0 ? number : 0.1
    case 1: return Double(Int.random(in: -3...3, using: &random)) / 4 + 0
    case 2:
      return [9_007_199_254_740_992, -9_007_199_254_740_994, 1e300, Double.leastNonzeroMagnitude].randomElement(
        using: &random) ?? 1
    default: return Double(Int.random(in: -3...12, using: &random))
    }
  }
}
