import Dispatch
import Foundation

/// Hears SIGTERM and SIGINT in place of their default: an orderly end.
final class SignalWatch {
  private let sources: [any DispatchSourceSignal]

  init(_ heard: @escaping @Sendable () -> Void) {
    sources = [SIGTERM, SIGINT].map { number in
      // Ignored by the process, seen by the source.
      _ = signal(number, SIG_IGN)
      let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
      source.setEventHandler(handler: heard)
      source.resume()
      return source
    }
  }

  func end() {
    for source in sources { source.cancel() }
  }
}
