import Synchronization

/// The state and its lock.
final class LockedState: Sendable {
  private let state: Mutex<SimulatorState>

  init(_ state: SimulatorState) {
    self.state = Mutex(state)
  }

  func withState<Result: Sendable>(_ body: (inout SimulatorState) -> Result) -> Result {
    state.withLock { state in body(&state) }
  }
}
