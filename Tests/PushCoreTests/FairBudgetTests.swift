import PushCore
import TestSupport
import Testing

/// What owners share: nobody gets everything, and nothing is lost.
@Suite struct FairBudgetTests {
  /// Each takes one at a time, in turns, until nobody gets more.
  private func saturate(_ budget: inout FairBudget<Int>, _ owners: Range<Int>) -> [Int] {
    var held = owners.map { _ in 0 }
    var isTaken = true
    while isTaken {
      isTaken = false
      for (index, owner) in owners.enumerated() where budget.take(1, for: owner) {
        held[index] += 1
        isTaken = true
      }
    }
    return held
  }

  @Test(arguments: [1, 2, 3, 7, 20]) func whatIsLeftIsForTheNext(_ count: Int) {
    var budget = FairBudget<Int>(maximum: 10_000)
    let held = saturate(&budget, 0..<count)
    #expect(budget.free == 10_000 - held.reduce(0, +))
    // Three times what is left, each.
    for one in held { #expect(abs(one - 3 * budget.free) <= 3, "\(held), \(budget.free) free") }
    let isTaken = budget.take(1, for: 0)
    #expect(!isTaken)
    // The next one has three quarters of what is left, whatever the others hold.
    let (free, next) = (budget.free, saturate(&budget, 100..<101)[0])
    #expect(next >= free * 3 / 4 - 3 && next <= free)
  }

  /// One connection is allowed (`gateway.connections_max: 1`): it is for whoever comes first.
  @Test func theOnlyOneIsForTheFirst() {
    var budget = FairBudget<Int>(maximum: 1)
    let isFirst = budget.take(1, for: 1)
    let isSecond = budget.take(1, for: 2)
    #expect(isFirst && !isSecond && budget.free == 0)
    budget.give(1, from: 1)
    let isNext = budget.take(1, for: 2)
    #expect(isNext)
  }

  @Test func nothingIsLost() {
    var random = SeededRandom(seed: 7)
    var budget = FairBudget<Int>(maximum: 1_000)
    var held = [0, 0, 0, 0]
    for _ in 0..<20_000 {
      let owner = Int(random.next() % 4)
      if random.next() % 2 == 0 {
        let count = Int(random.next() % 300)
        if budget.take(count, for: owner) { held[owner] += count }
      } else {
        let count = Int(random.next() % UInt64(held[owner] + 1))
        budget.give(count, from: owner)
        held[owner] -= count
      }
      #expect(budget.free == 1_000 - held.reduce(0, +) && budget.free >= 0)
    }
  }
}
