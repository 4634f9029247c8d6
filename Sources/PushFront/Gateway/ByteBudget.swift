import Synchronization

/// Bytes that many share.
final class ByteBudget: Sendable {
  private let left: Atomic<Int>

  init(maximum: Int) {
    left = Atomic(maximum)
  }

  /// false: so many are not left, and none is taken.
  func take(_ count: Int) -> Bool {
    if left.subtract(count, ordering: .relaxed).newValue >= 0 { return true }
    give(count)
    return false
  }

  func give(_ count: Int) { left.add(count, ordering: .relaxed) }
}
