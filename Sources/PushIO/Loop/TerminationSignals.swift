import Dispatch
import Glibc

/// What SIGTERM and SIGINT do to this process.
package enum TerminationSignals {
  /// Both end the process at once, whatever handlers were installed.
  ///
  /// Dispatch's threads block these signals, and the main thread, which waits for signals, does between two waits. One that comes then goes
  /// to Dispatch's own watch, where nobody acts on it any more. So there is one thread that can always take it, from the return on.
  package static func restoreDefaults() {
    _ = signal(SIGTERM, SIG_DFL)
    _ = signal(SIGINT, SIG_DFL)
    var thread = pthread_t()
    _ = unsafe pthread_create(&thread, nil, { _ in unsafe TerminationSignals.takeSignals() }, nil)
    takes.wait()
  }

  private static let takes = DispatchSemaphore(value: 0)

  private static func takeSignals() -> UnsafeMutableRawPointer? {
    var signals = sigset_t()
    unsafe sigemptyset(&signals)
    unsafe sigaddset(&signals, SIGTERM)
    unsafe sigaddset(&signals, SIGINT)
    unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
    takes.signal()
    while true { pause() }
  }
}
