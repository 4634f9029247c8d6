/// A process as its machine knows it, which may die at any byte that it writes: what it does after that in the same turn reaches nobody.
package final class SimulatedProcess {
  /// nil: it lives on.
  private var bytesLeft: Int?

  package init() {}

  var isDead: Bool { bytesLeft == 0 }

  /// It dies once it has written so many bytes more.
  func die(afterBytes count: Int) { bytesLeft = max(1, count) }

  /// It writes so many bytes. Returns how many of them leave.
  func write(_ count: Int) -> Int {
    guard let left = bytesLeft else { return count }
    bytesLeft = max(0, left - count)
    return min(count, left)
  }
}
