import CLinux
import Glibc

/// A thread for one event loop, such as a lane's.
package final class LoopThread: Sendable {
  private let thread: pthread_t

  /// Starts `body` on a new thread named `name` (at most 15 bytes are shown).
  package init(name: String, _ body: @escaping @Sendable () -> Void) {
    let box = unsafe Unmanaged.passRetained(Start(name: name, body: body))
    var started = pthread_t()
    let status = unsafe pthread_create(
      &started, nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        let start = unsafe Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
        _ = unsafe pthread_setname_np(pthread_self(), String(start.name.prefix(15)))
        start.body()
        return nil
      }, unsafe box.toOpaque())
    precondition(status == 0, "a thread could not be started: \(status)")
    thread = started
  }

  /// Waits until the thread's body returned. Called once.
  package func join() {
    pthread_join(thread, nil)
  }

  private final class Start {
    let name: String
    let body: @Sendable () -> Void

    init(name: String, body: @escaping @Sendable () -> Void) {
      self.name = name
      self.body = body
    }
  }
}
