package import PushCore
import Synchronization

/// The correction of a machine's wall clock (`WallClockState`), which its loops share. Loops read it once a turn.
package final class WallClock: Sendable {
  /// Of this machine.
  package static let machine = WallClock()

  private let state = Mutex(WallClockState())
  private let correction = Atomic<Int64>(0)

  package init() {}

  /// What to add to the machine's clock, milliseconds; 0: nothing.
  package var correctionMilliseconds: Int64 { correction.load(ordering: .relaxed) }

  /// - Parameters:
  ///   - unixMilliseconds: the source's time now.
  ///   - machine: now, with the machine's own clock.
  package func heard(_ source: WallClockState.Source, unixMilliseconds: Int64, machine: Now) {
    state.withLock { state in
      state.heard(source, unixMilliseconds: unixMilliseconds, at: machine.monotonic)
      correction.store(state.correction(machine), ordering: .relaxed)
    }
  }
}
