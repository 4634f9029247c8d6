import PushCore
import Synchronization

/// What a process knows of other clocks (`WallClockState`), for all its loops. It belongs to a worker, a gateway or a command, which gives it
/// to each of its loops; a loop with a clock of its own goes by the machine's.
package final class WallClock: Sendable {
  private let state: Mutex<WallClockState>
  private let changes = Atomic<UInt64>(0)

  /// - Parameter isPrecise: differences from Redis' clock below a second are corrected too.
  package init(isPrecise: Bool = false) {
    state = Mutex(
      WallClockState(
        redisToleranceMilliseconds: isPrecise
          ? WallClockState.preciseToleranceMilliseconds : WallClockState.toleranceMilliseconds))
  }

  /// Increases with each time that is heard.
  var version: UInt64 { changes.load(ordering: .acquiring) }

  var current: WallClockState { state.withLock { $0 } }

  /// The corrected time now, for threads without a loop.
  package var unixMilliseconds: Int64 {
    let machine = Now(monotonic: LinuxKernel.monotonic, unixMilliseconds: LinuxKernel.unixMilliseconds)
    return machine.unixMilliseconds &+ current.correction(machine)
  }

  /// - Parameters:
  ///   - unixMilliseconds: the source's time.
  ///   - monotonic: when it had it.
  func heard(_ source: WallClockState.Source, unixMilliseconds: Int64, at monotonic: Instant) {
    state.withLock { $0.heard(source, unixMilliseconds: unixMilliseconds, at: monotonic) }
    changes.add(1, ordering: .releasing)
  }
}
