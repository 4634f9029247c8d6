import CLinux
import Glibc
import Synchronization

/// What a resolver and its thread share: questions one way, answers the other. The thread keeps it alive, so a loop may
/// end while a look-up still blocks.
final class ResolverQueue: Sendable {
  struct Request: Sendable {
    let number: UInt64
    let host: String
    let port: UInt16
  }

  typealias Found = (number: UInt64, result: Result<[SocketAddress], ResolverError>)

  private struct Contents {
    var requests: [Request] = []
    var answers: [Found] = []
    var hasEnded = false
  }

  private let contents = Mutex(Contents())
  private let mailbox: Mailbox
  /// An eventfd that counts questions; the thread blocks on it.
  private let bell: Int32

  init(mailbox: Mailbox) {
    self.mailbox = mailbox
    bell = eventfd(0, Int32(EFD_CLOEXEC))
  }

  deinit {
    if bell >= 0 { closeDescriptor(bell) }
  }

  /// False where the thread is so far behind that even forgotten questions fill the queue.
  func ask(_ request: Request) -> Bool {
    let taken = contents.withLock { contents in
      if contents.requests.count >= Resolver.requestsMaximum { return false }
      contents.requests.append(request)
      return true
    }
    if taken { ring() }
    return taken
  }

  /// Takes a question back that the thread did not begin with.
  func drop(_ number: UInt64) {
    contents.withLock { contents in contents.requests.removeAll { $0.number == number } }
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
      contents.requests = []
      contents.answers = []
    }
    ring()
  }

  /// False where the system gave no descriptor or thread.
  func startThread(lookup: @escaping Resolver.Lookup) -> Bool {
    guard bell >= 0 else { return false }
    let work = unsafe Unmanaged.passRetained(ResolverWork(queue: self, lookup: lookup))
    var thread = pthread_t()
    let code = unsafe pthread_create(
      &thread, nil,
      { argument in
        guard let argument = unsafe argument else { return nil }
        unsafe Unmanaged<ResolverWork>.fromOpaque(argument).takeRetainedValue().run()
        return nil
      }, work.toOpaque())
    guard code == 0 else {
      unsafe work.release()
      return false
    }
    pthread_detach(thread)
    return true
  }

  private func ring() {
    var one: UInt64 = 1
    _ = unsafe write(bell, &one, MemoryLayout<UInt64>.size)
  }

  /// Blocks until there is a question; nil once the resolver has ended.
  fileprivate func next() -> Request? {
    while true {
      let (request, hasEnded) = contents.withLock { contents -> (Request?, Bool) in
        if contents.hasEnded { return (nil, true) }
        return (contents.requests.isEmpty ? nil : contents.requests.removeFirst(), false)
      }
      if hasEnded { return nil }
      if let request { return request }
      var count: UInt64 = 0
      _ = unsafe read(bell, &count, MemoryLayout<UInt64>.size)
    }
  }

  fileprivate func answer(_ found: Found) {
    let isWanted = contents.withLock { contents in
      if !contents.hasEnded { contents.answers.append(found) }
      return !contents.hasEnded
    }
    if isWanted { mailbox.wake() }
  }
}

/// What the resolver's thread does.
private final class ResolverWork: Sendable {
  let queue: ResolverQueue
  let lookup: Resolver.Lookup

  init(queue: ResolverQueue, lookup: @escaping Resolver.Lookup) {
    self.queue = queue
    self.lookup = lookup
  }

  func run() {
    while let request = queue.next() {
      queue.answer((request.number, lookup(request.host, request.port)))
    }
  }
}
