import CLinux
import Glibc
import Synchronization

/// Names to addresses. `getaddrinfo` blocks, so it runs on a thread of its own, started with the first name; numeric
/// addresses need no thread. No cache: every connection asks anew, so that a moved service is found.
package final class Resolver {
  /// Looks one name up, on the resolver's thread. It may block.
  package typealias Lookup = @Sendable (_ host: String, _ port: UInt16) -> Result<[SocketAddress], ResolverError>
  package typealias Answer = (Result<[SocketAddress], ResolverError>) -> Void

  /// Names that wait or are being looked up, at most.
  package static let requestsMaximum = 256

  private let queue: ResolverQueue
  private let lookup: Lookup
  private var waiting: [UInt64: Answer] = [:]
  private var nextRequest: UInt64 = 0
  private var hasThread = false

  init(mailbox: Mailbox, lookup: @escaping Lookup) {
    queue = ResolverQueue(mailbox: mailbox)
    self.lookup = lookup
  }

  /// Asks for the addresses of a host. The answer comes on the loop's thread, from inside `poll`. Returns a number for
  /// `cancel`, or nil where the queue is full or no thread could be started (then `answer` is never called).
  package func resolve(host: String, port: UInt16, _ answer: @escaping Answer) -> UInt64? {
    guard waiting.count < Resolver.requestsMaximum, startThread() else { return nil }
    nextRequest &+= 1
    guard queue.ask(ResolverQueue.Request(number: nextRequest, host: host, port: port)) else { return nil }
    waiting[nextRequest] = answer
    return nextRequest
  }

  /// Forgets a question: its answer, should there be one, reaches nobody.
  package func cancel(_ request: UInt64) {
    waiting[request] = nil
    queue.drop(request)
  }

  /// Hands out what the thread found. Called by the loop.
  func deliver() {
    for (number, result) in queue.takeAnswers() { waiting.removeValue(forKey: number)?(result) }
  }

  /// Ends the thread as soon as its current look-up is over. Nobody waits for that.
  func end() {
    waiting.removeAll()
    queue.end()
  }

  private func startThread() -> Bool {
    if !hasThread { hasThread = queue.startThread(lookup: lookup) }
    return hasThread
  }

  /// The system's resolver: IPv6 and IPv4, in the order the system prefers.
  package static let systemLookup: Lookup = { host, port in
    var hints = unsafe addrinfo()
    unsafe hints.ai_family = AF_UNSPEC
    unsafe hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    unsafe hints.ai_flags = AI_ADDRCONFIG
    var list: UnsafeMutablePointer<addrinfo>?
    let code = unsafe getaddrinfo(host, nil, &hints, &list)
    guard code == 0 else {
      let text = code == EAI_SYSTEM ? systemErrorText(errno) : unsafe String(cString: gai_strerror(code))
      return .failure(ResolverError(host: host, text: text))
    }
    defer { unsafe freeaddrinfo(list) }
    var addresses: [SocketAddress] = []
    var entry = unsafe list
    while let current = unsafe entry {
      if let address = unsafe SocketAddress(copying: current.pointee.ai_addr, port: port) { addresses.append(address) }
      unsafe entry = current.pointee.ai_next
    }
    return addresses.isEmpty ? .failure(ResolverError(host: host, text: "it has no address")) : .success(addresses)
  }
}

/// Why a name has no addresses.
package struct ResolverError: Error, Sendable, CustomStringConvertible {
  package let host: String
  package let text: String

  package init(host: String, text: String) {
    self.host = host
    self.text = text
  }

  package var description: String { "looking up \(host) failed: \(text)" }
}
