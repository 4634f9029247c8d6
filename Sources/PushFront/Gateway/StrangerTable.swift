import PushCore
import Synchronization

/// The connections that have not shown a valid key yet, the oldest first. A full gateway closes the oldest one for a new client: whoever only
/// holds connections keeps nobody out.
final class StrangerTable: Sendable {
  private struct State {
    var last: UInt64 = 0
    /// By number: closes the connection.
    var all: [UInt64: @Sendable () -> Void] = [:]
    /// Their numbers, and those of connections that are no longer in `all`.
    var order = RingBuffer<UInt64>(growingFrom: 64)
  }

  private let state = Mutex(State())
  /// Numbers of connections that have gone are removed when there are so many.
  private static let spare = 1_000

  /// Adds a connection. Returns its number.
  func add(_ close: @escaping @Sendable () -> Void) -> UInt64 {
    state.withLock { state in
      state.last += 1
      state.all[state.last] = close
      state.order.append(state.last)
      // Most connections show a key at once, and one may stay for ever.
      if state.order.count > 2 * state.all.count + StrangerTable.spare {
        state.order = RingBuffer(growingFrom: 64)
        for number in state.all.keys.sorted() { state.order.append(number) }
      }
      return state.last
    }
  }

  /// The connection has shown a key, or has ended.
  func remove(_ number: UInt64) { state.withLock { state in _ = state.all.removeValue(forKey: number) } }

  /// Closes the oldest connection, if there is one.
  func closeOldest() {
    let close = state.withLock { state -> (@Sendable () -> Void)? in
      while let first = state.order.popFirst() {
        if let close = state.all.removeValue(forKey: first) { return close }
      }
      return nil
    }
    close?()
  }
}
