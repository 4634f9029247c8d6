/// A quantity that owners share fairly: an owner may hold at most three times what it leaves to all others, and always one.
///
/// One owner alone gets three quarters, two get three sevenths each, and something is left for the next one until there are as many owners as
/// units. The threshold moves with what is free (Choudhury and Hahne, "Dynamic queue length thresholds for
/// shared-memory packet switches", 1998).
package struct FairBudget<Owner: Hashable & Sendable>: Sendable {
  private static var shareOfFree: Int { 3 }

  /// What is left for everybody.
  package private(set) var free: Int
  private var held: [Owner: Int] = [:]

  package init(maximum: Int) {
    precondition(maximum >= 0, "a budget is not negative")
    free = maximum
  }

  package func held(by owner: Owner) -> Int { held[owner, default: 0] }

  /// Takes from the budget. false: too little is left, or the owner holds too much of it; nothing was taken.
  package mutating func take(_ count: Int, for owner: Owner) -> Bool {
    guard count <= free else { return false }
    let own = held[owner, default: 0] + count
    guard FairBudget.isFair(own, leaving: free - count) else { return false }
    free -= count
    if own > 0 { held[owner] = own }
    return true
  }

  /// Whether an owner may hold so much, if this is left for everybody.
  package static func isFair(_ own: Int, leaving free: Int) -> Bool { own <= max(1, shareOfFree * free) }

  /// Returns what `take` took.
  package mutating func give(_ count: Int, from owner: Owner) {
    guard count > 0 else { return }
    let own = held[owner, default: 0] - count
    precondition(own >= 0, "an owner returns what it took")
    free += count
    held[owner] = own == 0 ? nil : own
  }
}
