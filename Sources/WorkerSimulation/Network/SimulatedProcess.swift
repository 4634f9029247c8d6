/// A process that may die at any byte that it writes: what it does after that in the same turn has no effect.
package final class SimulatedProcess {
  /// nil: no death is planned.
  private var bytesLeft: Int?

  package init() {}

  var isDead: Bool { bytesLeft == 0 }

  /// Kills the process after it has written this many more bytes, at least one.
  func die(afterBytes count: Int) { bytesLeft = max(1, count) }

  /// Counts a write. Returns how many of the bytes are sent.
  func write(_ count: Int) -> Int {
    guard let left = bytesLeft else { return count }
    bytesLeft = max(0, left - count)
    return min(count, left)
  }
}
