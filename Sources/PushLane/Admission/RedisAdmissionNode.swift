import PushCore
import PushIO

/// One Redis server as the admission store uses it: its connection, and what was sent there and waits for its replies, which come in
/// order.
final class RedisAdmissionNode {
  typealias Entry = RedisAdmissionQueue.Entry

  let connection: RedisConnection
  var state: AdmissionServerState
  private var waiting: RedisAdmissionQueue
  private let waitingMaximum: Int
  /// Asked for in this turn, not sent yet; nil until a server gave the script's digest.
  private var call: RedisAdmissionCall?
  /// Outcomes on their way, as they stand in `waiting`: lost ones are sent again.
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

  /// How calls are written from now on. What was asked for before must be sent.
  func use(_ format: RedisAdmissionFormat) {
    precondition(askedCount == 0, "what was asked for has another format")
    call = RedisAdmissionCall(format: format)
  }

  /// (job, target)s of the call that is not sent yet.
  var askedCount: Int { call?.entries.count ?? 0 }

  /// Asks with the next call. false: it cannot be asked now.
  func ask(_ entry: Entry) -> Bool {
    state.isAsked && waiting.count < waitingMaximum && connection.isReady && call?.append(entry) != nil
  }

  /// Sends the call. Returns what the connection does not take.
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

  /// It takes outcomes, and there is room for one.
  var takesOutcomes: Bool { state.takesOutcomes && waiting.count < waitingMaximum }

  /// A command was sent whose reply is this entry's.
  func sent(_ entry: Entry) {
    waiting.append(entry)
  }

  /// The same, of an outcome.
  func sent(_ outcome: UnconfirmedOutcome) {
    waiting.append(Entry(kind: .memory, request: Entry.noRequest))
    unconfirmed.append(outcome)
  }

  /// Has it load the scripts, which it forgot. false: it does so already.
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

  /// What the next reply is for, or the next loss.
  func takeWaiting() -> Entry {
    guard let entry = waiting.popFirst() else { preconditionFailure("a reply without its command") }
    return entry
  }

  /// The oldest outcome was not stored, or nobody knows.
  func takeUnconfirmed() -> UnconfirmedOutcome {
    guard let outcome = unconfirmed.popFirst() else { preconditionFailure("a confirm without its outcome") }
    return outcome
  }

  /// The oldest outcome was stored, in a key that has so many bytes now. nil: with all that belongs to it. Else nothing else is in the
  /// key: Redis forgot it meanwhile, and it was made anew, without claim and end.
  func confirmed(keyBytes: Int64) -> UnconfirmedOutcome? {
    if unconfirmed.first?.byteCount == Int(keyBytes) { return takeUnconfirmed() }
    unconfirmed.removeFirst()
    return nil
  }

  /// Whether the reply of this tag is that of a script that was loaded again.
  func takeReload(_ tag: UInt64) -> Bool {
    guard let index = reloadTags.firstIndex(of: tag) else { return false }
    reloadTags.remove(at: index)
    return true
  }

  /// The next admission that has waited for too long. Its reply still comes.
  func takeOverdue(now: Instant) -> Entry? {
    waiting.takeOverdue(now: now)
  }

  /// When the next answer is overdue if nothing comes until then.
  func nextDeadline() -> Instant? { waiting.nextDeadline() }

  /// The same, where what has come already counts.
  func nextOverdue() -> Instant? { waiting.nextOverdue() }
}
