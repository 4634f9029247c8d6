import CLinux
import Glibc
import Synchronization

/// Work for a loop from any thread. It is bounded, and a post wakes the loop.
package final class Mailbox: Sendable {
  private struct Box {
    var letters: [@Sendable (EventLoop) -> Void] = []
    var isClosed = false
    /// Woken since it was last emptied.
    var isWoken = false
  }

  private let box = Mutex(Box())
  private let capacity: Int
  /// An eventfd that is readable while the mailbox is not empty. nil: the loop is simulated, and checks by itself.
  let wakeDescriptor: Int32?

  convenience init(capacity: Int) throws(LoopError) {
    let descriptor = eventfd(0, Int32(EFD_CLOEXEC | EFD_NONBLOCK))
    guard descriptor >= 0 else { throw LoopError(call: "eventfd", code: errno) }
    self.init(capacity: capacity, wakeDescriptor: descriptor)
  }

  init(capacity: Int, wakeDescriptor: Int32?) {
    self.capacity = capacity
    self.wakeDescriptor = wakeDescriptor
  }

  deinit {
    if let wakeDescriptor { closeDescriptor(wakeDescriptor) }
  }

  /// It was woken since the loop last looked.
  var isWoken: Bool { box.withLock(\.isWoken) }

  /// Passes work to the loop's thread, which runs it inside `poll`, in the order of the posts. Returns false if the mailbox is full or its
  /// loop has ended: the work was not accepted.
  @discardableResult
  package func post(_ work: @escaping @Sendable () -> Void) -> Bool {
    postToLoop { _ in work() }
  }

  /// Like `post`, for work that needs the loop itself.
  @discardableResult
  package func postToLoop(_ work: @escaping @Sendable (EventLoop) -> Void) -> Bool {
    let (taken, wasEmpty) = box.withLock { box in
      if box.isClosed || box.letters.count >= capacity { return (false, false) }
      box.letters.append(work)
      return (true, box.letters.count == 1)
    }
    if wasEmpty { wake() }
    return taken
  }

  /// Ends the loop's wait, without work.
  package func wake() {
    guard let wakeDescriptor else {
      box.withLock { $0.isWoken = true }
      return
    }
    var one: UInt64 = 1
    // Fails only if the counter is full, and then the loop is awake.
    _ = unsafe write(wakeDescriptor, &one, MemoryLayout<UInt64>.size)
  }

  /// Swaps the contents for an empty array whose capacity is kept. Called by the loop.
  func take(into letters: inout [@Sendable (EventLoop) -> Void]) {
    if let wakeDescriptor {
      var count: UInt64 = 0
      _ = unsafe read(wakeDescriptor, &count, MemoryLayout<UInt64>.size)
    }
    box.withLock { box in
      box.isWoken = false
      swap(&box.letters, &letters)
    }
  }

  /// Accepts no more work and drops what is in it.
  func close() {
    let dropped = box.withLock { box in
      box.isClosed = true
      let letters = box.letters
      box.letters = []
      return letters
    }
    _ = dropped.count
  }
}
