import Dispatch
import Foundation

/// Handles SIGTERM and SIGINT for an orderly end.
final class SignalWatch {
  private let sources: [any DispatchSourceSignal]

  init(_ heard: @escaping @Sendable () -> Void) {
    sources = [SIGTERM, SIGINT].map { number in
      // The process ignores the signal; the dispatch source sees it.
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
