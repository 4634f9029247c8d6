import PushCore
import PushIO

/// One Redis server of the admission store: its connection, and the sent commands that wait for replies, which come in order.
final class RedisAdmissionNode {
  typealias Entry = RedisAdmissionQueue.Entry

  let connection: RedisConnection
  var state: AdmissionServerState
  private var waiting: RedisAdmissionQueue
  private let waitingMaximum: Int
  /// Admissions of this turn that are not sent yet; nil until a server gave the script's digest.
  private var call: RedisAdmissionCall?
  /// Outcomes in flight, in the order of `waiting`: lost ones are sent again.
  private var unconfirmed = RingBuffer<UnconfirmedOutcome>(growingFrom: 64)
  /// Scripts that are being loaded again.
  private var reloadTags: [UInt64] = []

  init(connection: RedisConnection, breaker: BreakerState.Settings, settings: RedisAdmissionStoreSettings) {
    self.connection = connection
    state = AdmissionServerState(breaker: breaker)
    waiting = RedisAdmissionQueue(timeoutMilliseconds: settings.timeoutMilliseconds)
    waitingMaximum = settings.waitingMaximum
  }

  // MARK: - Sending

  /// Sets how calls are written from now on. Earlier admissions must be sent.
  func use(_ format: RedisAdmissionFormat) {
    precondition(askedCount == 0, "what was asked for has another format")
    call = RedisAdmissionCall(format: format)
  }

  /// (job, target)s in the unsent call.
  var askedCount: Int { call?.entries.count ?? 0 }

  /// Adds an admission to the next call. false: the server cannot be asked now.
  func ask(_ entry: Entry) -> Bool {
    state.isAsked && waiting.count < waitingMaximum && connection.isReady && call?.append(entry) != nil
  }

  /// Sends the call. Returns what the connection does not accept.
  func sendCall() -> [Entry] {
    guard let count = call?.entries.count, count > 0 else { return [] }
    defer { call?.removeAll() }
    guard call?.send(on: connection) == true else { return call?.entries ?? [] }
    for index in 0..<count {
      guard let entry = call?.entries[index] else { break }
      waiting.append(entry)
    }
    return []
  }

  /// It stores outcomes, and there is room for one.
  var takesOutcomes: Bool { state.takesOutcomes && waiting.count < waitingMaximum }

  /// A command was sent; this entry waits for its reply.
  func sent(_ entry: Entry) {
    waiting.append(entry)
  }

  /// The same for an outcome.
  func sent(_ outcome: UnconfirmedOutcome) {
    waiting.append(Entry(kind: .memory, request: Entry.noRequest))
    unconfirmed.append(outcome)
  }

  /// Makes it load the scripts that it has lost. false: it is loading them already.
  func loadScripts() -> Bool {
    guard reloadTags.isEmpty else { return false }
    reloadTags = RedisScript.all.indices.compactMap { connection.reloadScript($0) }
    return true
  }

  // MARK: - Replies

  /// Nothing waits for a reply.
  var isQuiet: Bool { waiting.count == 0 }

  func replied(now: Instant) {
    waiting.replied(now: now)
  }

  /// The entry for the next reply or loss.
  func takeWaiting() -> Entry {
    guard let entry = waiting.popFirst() else { preconditionFailure("a reply without its command") }
    return entry
  }

  /// The oldest outcome was not stored, or this is unknown.
  func takeUnconfirmed() -> UnconfirmedOutcome {
    guard let outcome = unconfirmed.popFirst() else { preconditionFailure("a confirm without its outcome") }
    return outcome
  }

  /// The oldest outcome was stored, and its key now has this many bytes; nil: it was stored completely. Otherwise the key contains nothing
  /// else: Redis had lost it and created it again, without claim and expiry.
  func confirmed(keyBytes: Int64) -> UnconfirmedOutcome? {
    if unconfirmed.first?.byteCount == Int(keyBytes) { return takeUnconfirmed() }
    unconfirmed.removeFirst()
    return nil
  }

  /// Whether this tag is that of a script being loaded again.
  func takeReload(_ tag: UInt64) -> Bool {
    guard let index = reloadTags.firstIndex(of: tag) else { return false }
    reloadTags.remove(at: index)
    return true
  }

  /// The next admission that is overdue. Its reply may still come.
  func takeOverdue(now: Instant) -> Entry? {
    waiting.takeOverdue(now: now)
  }

  /// When the next answer is overdue if nothing comes until then.
  func nextDeadline() -> Instant? { waiting.nextDeadline() }

  /// The same, if what has already come counts.
  func nextOverdue() -> Instant? { waiting.nextOverdue() }
}
