/// Evaluates a plan, one chunk after another. It keeps its bitmaps, and allocates nothing once it has been made.
package struct FilterEvaluation: Sendable {
  package let plan: FilterPlan
  private var registers: [ChunkBitmap]

  package init(_ plan: FilterPlan) {
    self.plan = plan
    registers = Array(repeating: ChunkBitmap(), count: plan.registerCount)
    // Equal arrays share their memory until they are written to.
    for index in registers.indices { registers[index].removeAll() }
  }

  /// The devices of the chunk that was evaluated last.
  package var result: ChunkBitmap { registers[0] }

  /// Evaluates a chunk.
  /// - Parameter parts: what the plan's sets have in the chunk, in their order.
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

  /// From the most significant bit on. The register above holds those whose bits were equal so far; the target holds those that were
  /// decided by the first bit that differs.
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
