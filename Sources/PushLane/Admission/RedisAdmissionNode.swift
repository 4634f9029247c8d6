import PushCore
import PushIO

/// One Redis server of the admission store: its connection, and the sent commands that wait for replies, which come in order.
final class RedisAdmissionNode {
  typealias Entry = RedisAdmissionQueue.Entry

  let connection: RedisConnection
  var state: AdmissionServerState
  private(set) var silence: SilenceState
  private var waiting = RedisAdmissionQueue()
  private let waitingMaximum: Int
  /// Admissions of this turn that are not sent yet; nil until a server gave the script's digest.
  private var call: RedisAdmissionCall?
  /// Outcomes in flight, in the order of `waiting`: lost ones are sent again.
  private var unconfirmed = RingBuffer<UnconfirmedOutcome>(growingFrom: 64)
  /// Scripts that are being loaded again.
  private var reloadTags: [UInt64] = []

  private let loop: EventLoop

  init(
    loop: EventLoop, connection: RedisConnection, breaker: BreakerState.Settings, settings: RedisAdmissionStoreSettings
  ) {
    self.loop = loop
    self.connection = connection
    state = AdmissionServerState(breaker: breaker)
    silence = SilenceState(timeoutMilliseconds: settings.timeoutMilliseconds)
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
    silence.asked(turn: loop.turnCount)
    return []
  }

  /// It stores outcomes, and there is room for one.
  var takesOutcomes: Bool { state.takesOutcomes && waiting.count < waitingMaximum }

  /// A command was sent; this entry waits for its reply.
  func sent(_ entry: Entry) {
    waiting.append(entry)
    silence.asked(turn: loop.turnCount)
  }

  /// The same for an outcome.
  func sent(_ outcome: UnconfirmedOutcome) {
    sent(Entry(kind: .memory, request: Entry.noRequest))
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

  // MARK: - Silence

  /// Once a turn, after what came was handled. Returns the silence that bytes ended.
  func listen() -> SilenceState.Stretch? {
    if connection.receivedTurn == loop.turnCount {
      return silence.heard(turn: loop.turnCount, now: loop.now.monotonic, owes: waiting.count > 0)
    }
    _ = silence.heardNothing(turn: loop.turnCount, polledAt: loop.polledAt)
    return nil
  }

  /// While the server is silent: the next admission that waits for it. Its reply may still come.
  func takeOverdue() -> Entry? {
    guard silence.isSilent, let entry = waiting.takeUnanswered() else { return nil }
    silence.decidedWithout()
    return entry
  }

  /// The connection ended. Returns the silence that this ends.
  func lost() -> SilenceState.Stretch? { silence.lost(now: loop.now.monotonic) }
}
