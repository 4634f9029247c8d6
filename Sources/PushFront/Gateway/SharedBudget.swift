import PushCore
import Synchronization

/// A limit of bytes in memory that requests share: fairly between keys, and apart from it what came without a key so far. Requests without a
/// key, however many, take nothing of what those with a key have.
final class SharedBudget: Sendable {
  private struct State {
    var keyed: FairBudget<String>
    var unkeyedFree: Int
  }

  private let state: Mutex<State>

  init(maximum: Int, unkeyedMaximum: Int) {
    state = Mutex(State(keyed: FairBudget(maximum: maximum), unkeyedFree: unkeyedMaximum))
  }

  /// Takes bytes from the budget. false: not enough are left, and none were taken.
  /// - Parameter key: the id of the request's valid key; nil: none is known.
  func take(_ count: Int, for key: String?) -> Bool {
    state.withLock { state in
      if let key { return state.keyed.take(count, for: key) }
      guard count <= state.unkeyedFree else { return false }
      state.unkeyedFree -= count
      return true
    }
  }

  /// Returns bytes to the budget.
  func give(_ count: Int, from key: String?) {
    state.withLock { state in
      if let key { state.keyed.give(count, from: key) } else { state.unkeyedFree += count }
    }
  }
}
