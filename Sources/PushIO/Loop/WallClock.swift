import PushCore
import Synchronization

/// What a process knows of other clocks (`WallClockState`), for all its loops. It belongs to a worker, a gateway or a command, which gives it
/// to each of its loops; a loop with a clock of its own goes by the machine's.
package final class WallClock: Sendable {
  private let state = Mutex(WallClockState())
  private let changes = Atomic<UInt64>(0)

  package init() {}

  /// Increases with each time that is heard.
  var version: UInt64 { changes.load(ordering: .acquiring) }

  var current: WallClockState { state.withLock { $0 } }

  /// The corrected time now, for threads without a loop.
  package var unixMilliseconds: Int64 {
    let machine = Now(monotonic: LinuxKernel.monotonic, unixMilliseconds: LinuxKernel.unixMilliseconds)
    return machine.unixMilliseconds &+ current.correction(machine)
  }

  /// Redis has told its time.
  package var hasRedisTime: Bool { current.hasRedisTime }

  /// - Parameters:
  ///   - unixMilliseconds: the source's time.
  ///   - error: by how much it may be off, milliseconds.
  ///   - monotonic: when it had it.
  func heard(_ source: WallClockState.Source, unixMilliseconds: Int64, error: Int64, at monotonic: Instant) {
    state.withLock { $0.heard(source, unixMilliseconds: unixMilliseconds, error: error, at: monotonic) }
    changes.add(1, ordering: .releasing)
  }
}
