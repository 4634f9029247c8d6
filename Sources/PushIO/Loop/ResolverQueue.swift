import CLinux
import Glibc
import Synchronization

/// Shared by a resolver and its threads: names one way, answers the other. The threads retain it, so a loop may end while a look-up still
/// blocks.
final class ResolverQueue: Sendable {
  typealias Found = (name: Resolver.Name, result: Result<[SocketAddress], ResolverError>)

  private struct Contents {
    var names: [Resolver.Name] = []
    var answers: [Found] = []
    var threadCount = 0
    /// Threads without a name to resolve.
    var idleCount = 0
    var hasEnded = false
  }

  private let contents = Mutex(Contents())
  private let mailbox: Mailbox
  private let threadsMaximum: Int
  private let lookup: Resolver.Lookup
  /// An eventfd that counts names; the threads block on it, and each read takes one off.
  private let bell: Int32

  init(mailbox: Mailbox, threadsMaximum: Int, lookup: @escaping Resolver.Lookup) {
    precondition(threadsMaximum > 0, "somebody looks names up")
    self.mailbox = mailbox
    self.threadsMaximum = threadsMaximum
    self.lookup = lookup
    bell = eventfd(0, Int32(EFD_CLOEXEC | EFD_SEMAPHORE))
  }

  deinit {
    if bell >= 0 { closeDescriptor(bell) }
  }

  /// Queues a name. false: the system gave no descriptor or thread for it.
  func ask(_ name: Resolver.Name) -> Bool {
    guard bell >= 0 else { return false }
    let (needsThread, threadCount) = contents.withLock { contents in
      contents.names.append(name)
      let needsThread = contents.names.count > contents.idleCount && contents.threadCount < threadsMaximum
      if needsThread {
        contents.threadCount += 1
        contents.idleCount += 1
      }
      return (needsThread, contents.threadCount)
    }
    if needsThread, !startThread() {
      let isServed = contents.withLock { contents in
        contents.threadCount -= 1
        contents.idleCount -= 1
        // Without a thread nobody would take it.
        if threadCount == 1 { contents.names.removeAll { $0 == name } }
        return threadCount > 1
      }
      if !isServed { return false }
    }
    ring(1)
    return true
  }

  /// Removes a name that no thread has started with. false: one has.
  func drop(_ name: Resolver.Name) -> Bool {
    contents.withLock { contents in
      let before = contents.names.count
      contents.names.removeAll { $0 == name }
      return contents.names.count < before
    }
  }

  func takeAnswers() -> [Found] {
    contents.withLock { contents in
      let answers = contents.answers
      contents.answers = []
      return answers
    }
  }

  func end() {
    contents.withLock { contents in
      contents.hasEnded = true
      contents.names = []
      contents.answers = []
    }
    ring(UInt64(threadsMaximum))
  }

  private func startThread() -> Bool {
    let work = unsafe Unmanaged.passRetained(self)
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        unsafe Unmanaged<ResolverQueue>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      unsafe work.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  private func ring(_ count: UInt64) {
    var count = count
    _ = unsafe write(bell, &count, MemoryLayout<UInt64>.size)
  }

  // MARK: - On a thread

  private func run() {
    while let name = next() { answer((name, lookup(name.host, name.port))) }
  }

  /// Blocks until there is a name; nil once the resolver has ended.
  private func next() -> Resolver.Name? {
    while true {
      let (name, hasEnded) = contents.withLock { contents -> (Resolver.Name?, Bool) in
        if contents.hasEnded { return (nil, true) }
        if contents.names.isEmpty { return (nil, false) }
        contents.idleCount -= 1
        return (contents.names.removeFirst(), false)
      }
      if hasEnded { return nil }
      if let name { return name }
      var count: UInt64 = 0
      _ = unsafe read(bell, &count, MemoryLayout<UInt64>.size)
    }
  }

  private func answer(_ found: Found) {
    let isWanted = contents.withLock { contents in
      contents.idleCount += 1
      if !contents.hasEnded { contents.answers.append(found) }
      return !contents.hasEnded
    }
    if isWanted { mailbox.wake() }
  }
}
