import CLinux
import Glibc
import PushCore

/// Resolves names to addresses. `getaddrinfo` blocks, so it runs on separate threads, which are started as needed. Numeric addresses need
/// none.
///
/// Every connect resolves again, so a moved service is found. Concurrent questions about a name share one look-up, so a slow name blocks
/// only one thread. If a look-up fails or is late, the last addresses found are used.
package final class Resolver {
  /// Resolves one name, on one of the resolver's threads. It may block.
  package typealias Lookup = @Sendable (_ host: String, _ port: UInt16) -> Result<[SocketAddress], ResolverError>
  package typealias Answer = (Result<[SocketAddress], ResolverError>) -> Void

  /// Maximum of open questions, and of names being resolved or queued.
  package static let requestsMaximum = 256

  struct Name: Hashable, Sendable {
    let host: String
    let port: UInt16
  }

  private struct Question {
    let name: Name
    let answer: Answer
    /// Fires when the look-up is late, and again at the deadline.
    var timer: TimerToken?
  }

  private struct Known {
    var addresses: [SocketAddress]
    var since: Instant
  }

  private let queue: ResolverQueue
  private let limits: ResolverLimits
  /// Set by the owning loop after its own initialisation.
  weak var loop: EventLoop?
  private var questions: [UInt64: Question] = [:]
  private var nextQuestion: UInt64 = 0
  /// Names that a thread is resolving, or will.
  private var lookups: Set<Name> = []
  private var known: [Name: Known] = [:]

  init(mailbox: Mailbox, limits: ResolverLimits, lookup: @escaping Lookup) {
    self.limits = limits
    queue = ResolverQueue(mailbox: mailbox, threadsMaximum: limits.lookupsMaximum, lookup: lookup)
  }

  /// Names that are being resolved or queued.
  package var lookupCount: Int { lookups.count }

  /// Resolves a host. The answer comes on the loop's thread, inside `poll`, by the deadline at the latest. Returns a number for `cancel`,
  /// or nil if too many questions are open or no thread could be started (then `answer` is never called).
  package func resolve(host: String, port: UInt16, _ answer: @escaping Answer) -> UInt64? {
    guard questions.count < Resolver.requestsMaximum else { return nil }
    let name = Name(host: host, port: port)
    if !lookups.contains(name) {
      guard lookups.count < Resolver.requestsMaximum, queue.ask(name) else { return nil }
      lookups.insert(name)
    }
    nextQuestion &+= 1
    let number = nextQuestion
    let timer = loop?.schedule(afterMilliseconds: min(limits.patienceMilliseconds, limits.deadlineMilliseconds)) {
      [weak self] in self?.isLate(number)
    }
    questions[number] = Question(name: name, answer: answer, timer: timer)
    return number
  }

  /// Cancels a question: its `answer` will not be called.
  package func cancel(_ number: UInt64) {
    guard let question = take(number) else { return }
    let isWanted = questions.values.contains { $0.name == question.name }
    if !isWanted, queue.drop(question.name) { lookups.remove(question.name) }
  }

  /// Delivers the threads' results. Called by the loop.
  func deliver() {
    for (name, result) in queue.takeAnswers() {
      lookups.remove(name)
      if case .success(let addresses) = result { remember(name, addresses) }
      // In the order of the questions.
      for number in questions.keys.filter({ questions[$0]?.name == name }).sorted() {
        // An answer may cancel another question.
        take(number)?.answer(usable(result, for: name))
      }
    }
  }

  /// Ends the threads after their current look-ups, without waiting.
  func end() {
    questions.removeAll()
    queue.end()
  }

  // MARK: - Late look-ups

  private func isLate(_ number: UInt64) {
    guard let question = questions[number] else { return }
    questions[number]?.timer = nil
    if let addresses = lastGood(question.name) {
      take(number)?.answer(.success(addresses))
      return
    }
    let left = limits.deadlineMilliseconds - limits.patienceMilliseconds
    questions[number]?.timer = loop?.schedule(afterMilliseconds: left) { [weak self] in self?.isOverdue(number) }
  }

  private func isOverdue(_ number: UInt64) {
    guard let question = take(number) else { return }
    let text = "no name server answered within \(limits.deadlineMilliseconds) ms"
    question.answer(usable(.failure(ResolverError(host: question.name.host, text: text)), for: question.name))
  }

  private func take(_ number: UInt64) -> Question? {
    guard let question = questions.removeValue(forKey: number) else { return nil }
    if let timer = question.timer { loop?.cancel(timer) }
    return question
  }

  // MARK: - Last good addresses

  private func usable(
    _ result: Result<[SocketAddress], ResolverError>, for name: Name
  ) -> Result<[SocketAddress], ResolverError> {
    guard case .failure = result, let addresses = lastGood(name) else { return result }
    return .success(addresses)
  }

  private func lastGood(_ name: Name) -> [SocketAddress]? {
    guard let known = known[name], let loop,
      loop.now.monotonic.milliseconds(since: known.since) < limits.ageMaximumMilliseconds
    else { return nil }
    return known.addresses
  }

  private func remember(_ name: Name, _ addresses: [SocketAddress]) {
    guard let loop else { return }
    if known.count >= limits.namesMaximum, known[name] == nil,
      let oldest = known.min(by: { $0.value.since < $1.value.since })
    {
      known[oldest.key] = nil
    }
    known[name] = Known(addresses: addresses, since: loop.now.monotonic)
  }

  // MARK: - The system

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

/// Why a name could not be resolved.
package struct ResolverError: Error, Sendable, CustomStringConvertible {
  package let host: String
  package let text: String

  package init(host: String, text: String) {
    self.host = host
    self.text = text
  }

  package var description: String { "looking up \(host) failed: \(text)" }
}
