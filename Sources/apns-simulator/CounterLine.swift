import APNsSimulator
import Dispatch
import Foundation
import Synchronization

/// A live line of counters on standard error, if that is a terminal.
final class CounterLine {
  private let timer: any DispatchSourceTimer

  /// nil if standard error is no terminal.
  init?(_ simulator: Simulator) {
    guard isatty(FileHandle.standardError.fileDescriptor) == 1 else { return nil }
    timer = DispatchSource.makeTimerSource(queue: .global())
    timer.schedule(deadline: .now() + 1, repeating: 1)
    let last = LastCount()
    timer.setEventHandler {
      let text = simulator.readLedger { ledger in
        let rate = max(0, ledger.requests - last.value.exchange(ledger.requests, ordering: .relaxed))
        return "\r\u{1B}[K\(ledger.requests) requests  \(rate)/s  \(ledger.accepted) accepted  "
          + "\(ledger.refused) refused  \(ledger.connectionsOpen) connections"
      }
      FileHandle.standardError.write(Data(text.utf8))
    }
    timer.resume()
  }

  func end() {
    timer.cancel()
    FileHandle.standardError.write(Data("\n".utf8))
  }
}

/// The count of a second ago.
private final class LastCount: Sendable {
  let value = Atomic(0)
}
