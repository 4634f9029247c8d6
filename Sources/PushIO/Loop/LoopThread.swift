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
    guard status == 0 else { LoopThread.failed(name, status) }
    thread = started
  }

  /// Ends the process, which is of no use without the thread, with EX_OSERR: the system's limits are no bug of ours.
  private static func failed(_ name: String, _ status: Int32) -> Never {
    let text = """
      herald: cannot start the thread \(name): \(systemErrorText(status)); lower lanes, or raise the limits of threads and memory \
      (ulimit -u and -v, pids.max of the container)

      """
    unsafe text.utf8.span.withUnsafeBufferPointer { bytes in _ = unsafe write(2, bytes.baseAddress, bytes.count) }
    exit(71)
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
