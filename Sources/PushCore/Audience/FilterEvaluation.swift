/// Evaluates a plan chunk by chunk. It reuses its bitmaps, and allocates nothing after its creation.
package struct FilterEvaluation: Sendable {
  package let plan: FilterPlan
  private var registers: [ChunkBitmap]

  package init(_ plan: FilterPlan) {
    self.plan = plan
    registers = Array(repeating: ChunkBitmap(), count: plan.registerCount)
    // Equal arrays share storage until a write: separate them now.
    for index in registers.indices { registers[index].removeAll() }
  }

  /// The devices of the last evaluated chunk.
  package var result: ChunkBitmap { registers[0] }

  /// Evaluates a chunk.
  /// - Parameter parts: the parts of the plan's sets in the chunk, in order.
  package mutating func evaluate(_ parts: [ChunkPart]) {
    precondition(parts.count == plan.sets.count, "each set has its part")
    for step in plan.steps {
      switch step {
      case .clear(let target): registers[target].removeAll()
      case .unite(let set, let target): registers[target].formUnion(parts[set])
      case .intersect(let set, let target): registers[target].formIntersection(parts[set])
      case .subtract(let set, let target): registers[target].subtract(parts[set])
      case .uniteNext(let target): registers[target].formUnion(registers[target + 1])
      case .intersectNext(let target): registers[target].formIntersection(registers[target + 1])
      case .subtractNext(let target): registers[target].subtract(registers[target + 1])
      case .compare(let comparison, let target): compare(comparison, parts, target)
      }
    }
  }

  /// Starts at the most significant bit. The register above holds the devices whose bits were equal so far; the target
  /// holds those decided by the first different bit.
  private mutating func compare(_ comparison: FilterComparison, _ parts: [ChunkPart], _ target: Int) {
    registers[target].removeAll()
    registers[target + 1].removeAll()
    registers[target + 1].formUnion(parts[comparison.numbers])
    for (place, plane) in comparison.planes.enumerated() {
      let part = parts[plane]
      if (comparison.bits << UInt64(place)) >> 63 == 1 {
        if comparison.kind == .atMost { registers[target].formUnion(registers[target + 1], notIn: part) }
        if part.isEmpty {
          registers[target + 1].removeAll()
          break
        }
        registers[target + 1].formIntersection(part)
      } else if !part.isEmpty {
        if comparison.kind == .atLeast { registers[target].formUnion(registers[target + 1], in: part) }
        registers[target + 1].subtract(part)
      }
    }
    registers[target].formUnion(registers[target + 1])
  }
}
