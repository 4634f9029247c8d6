import Synchronization

/// A shared limit of bytes in memory.
final class ByteBudget: Sendable {
  private let left: Atomic<Int>

  init(maximum: Int) {
    left = Atomic(maximum)
  }

  /// Takes bytes from the budget. false: not enough are left, and none were taken.
  func take(_ count: Int) -> Bool {
    if left.subtract(count, ordering: .relaxed).newValue >= 0 { return true }
    give(count)
    return false
  }

  /// Returns bytes to the budget.
  func give(_ count: Int) { left.add(count, ordering: .relaxed) }
}
