package import PushCore
package import PushIO

/// Shared state in Redis: one script call admits a (job, target), one command remembers its end, all pipelined.
///
/// It never stops the lane. An answer that is late (`timeoutMilliseconds`) or an error lets the job proceed, with this
/// lane's own memory for the rate: twice is better than never. After some failures in a row, or without a connection,
/// memory answers at once, and a probe finds out when Redis is back; what was remembered meanwhile stays this lane's, and
/// is looked at first until it ends. One exception: until the first connection succeeded or failed, admissions wait, at
/// most for the connect timeout: a worker that starts gets the jobs back that the one before it had answered.
///
/// Not Sendable: it belongs to the thread of its loop.
package final class RedisSharedState: SharedState {
  package private(set) var counters = SharedStateCounters()

  private typealias Entry = RedisSharedStateQueue.Entry

  private let loop: EventLoop
  private let connection: RedisConnection
  private var settings: RedisSharedStateSettings
  private var commands: RedisScriptCommands?
  private var memory: GateMemory
  private var breaker: BreakerState
  private var waiting = RedisSharedStateQueue()
  /// Admissions of before the first connection succeeded or failed.
  private var early: [Entry] = []
  private var isSettled = false
  private var answers: [(ticket: Ticket, admission: Admission)] = []
  private var nextAnswer = 0
  private var replies: [(id: UInt64, reply: RedisReply?)] = []
  private var reloadTag: UInt64?
  /// The server answers, but takes no writes.
  private var writeRefusal: RedisServerError?
  private var nextWriteProbe = Instant(nanoseconds: 0)
  private var nextReconnect = Instant(nanoseconds: 0)
  /// Why the breaker is open; nil while it is closed.
  private var outage: String? = "Redis is not connected yet"
  private var toldDegraded = false
  private var notices: [SharedStateNotice] = []
  private var wake: (token: TimerToken, at: Instant, flag: WakeFlag)?

  /// A replica does not become a primary by waiting: its address is looked up again this often.
  private static let replicaReconnectMilliseconds: Int64 = 5000

  /// `tls` is needed for `rediss://`. `seed` spreads reconnects.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, settings: RedisSharedStateSettings,
    seed: UInt64
  ) {
    precondition(settings.timeoutMilliseconds > 0 && settings.outcomeSeconds > 0 && settings.deadSeconds > 0)
    self.loop = loop
    self.settings = settings
    connection = RedisConnection(
      loop: loop, configuration: configuration, tls: tls, scripts: [RedisScript.admit], seed: seed)
    var memorySettings = GateMemory.Settings()
    memorySettings.limit = settings.limit?.share(of: settings.localShares)
    memorySettings.outcomeSeconds = settings.outcomeSeconds
    memorySettings.deadSeconds = settings.deadSeconds
    memory = GateMemory(settings: memorySettings)
    var breakerSettings = BreakerState.Settings()
    breakerSettings.failuresMaximum = settings.failuresMaximum
    breakerSettings.probeIntervalMilliseconds = settings.probeIntervalMilliseconds
    breakerSettings.probeTimeoutMilliseconds = settings.timeoutMilliseconds
    breaker = BreakerState(settings: breakerSettings)
  }

  deinit {
    if let wake { loop.cancel(wake.token) }
  }

  /// Connects, now and after every loss.
  package func connect() {
    connection.connect()
  }

  /// Flushes what was sent, and ends. Admissions that wait are not answered any more.
  package func close() {
    connection.close()
  }

  /// The limit for what is admitted from now on; nil: none.
  package func update(limit: RateLimit?) {
    settings.limit = limit
    memory.settings.limit = limit?.share(of: settings.localShares)
    if commands != nil { makeCommands() }
  }

  // MARK: - Health

  package var isConnected: Bool { connection.isReady }

  /// Why a feature does not work across replicas now; nil: it does.
  package func degradation(of feature: SharedStateFeature) -> String? {
    switch feature {
    case .rateLimit where settings.limit == nil: nil
    case .duplicates, .deadTokens, .rateLimit: outage ?? writeRefusal?.description
    }
  }

  /// What changed, for the log.
  package func nextNotice() -> SharedStateNotice? {
    notices.isEmpty ? nil : notices.removeFirst()
  }

  // MARK: - Other commands

  /// Sends any command on this connection, behind the others; nil where there is no connection. Not for the hot path.
  package func request(_ arguments: [String]) -> UInt64? {
    connection.request(arguments)
  }

  /// The next answer to `request`, read by `nextAdmission`; a nil reply: lost, it may have run or not.
  package func nextReply() -> (id: UInt64, reply: RedisReply?)? {
    replies.isEmpty ? nil : replies.removeFirst()
  }

  // MARK: - Asking

  package func admit(_ job: borrowing PushJob, target: Int, apnsID: UUIDValue, ticket: Ticket, now: Now) {
    counters.admissions &+= 1
    let entry = Entry(
      kind: .admission, ticket: ticket,
      deadline: now.monotonic.adding(milliseconds: settings.timeoutMilliseconds),
      request: GateRequest(job, target: target, apnsID: apnsID))
    guard isSettled else {
      early.append(entry)
      return
    }
    ask(entry, now: now)
  }

  private func ask(_ entry: Entry, now: Now) {
    if !memory.isEmpty, let known = memory.recall(entry.request, now: now) {
      counters.decidedLocally &+= 1
      answers.append((entry.ticket, known))
      return
    }
    guard breaker.isClosed, waiting.count < settings.waitingMaximum, sendAdmission(entry) else {
      answerLocally(entry, now: now)
      return
    }
    wakeUp(at: entry.deadline)
  }

  private func sendAdmission(_ entry: Entry) -> Bool {
    guard commands?.sendAdmission(entry.request, on: connection) == true else { return false }
    waiting.append(entry)
    return true
  }

  /// Late, failed or spared: not known to be answered or dead, and this lane's share of the rate decides.
  private func answerLocally(_ entry: Entry, now: Now) {
    counters.decidedLocally &+= 1
    answers.append((entry.ticket, memory.charge(entry.request, now: now)))
  }

  package func remember(
    _ outcome: RememberedOutcome, of job: borrowing PushJob, target: Int, apnsID: UUIDValue, now: Now
  ) {
    let request = GateRequest(job, target: target, apnsID: apnsID)
    if breaker.isClosed, waiting.count < settings.waitingMaximum,
      commands?.sendMemory(outcome, of: request, on: connection) == true
    {
      counters.remembered &+= 1
      waiting.append(Entry(kind: .memory, request: request))
      if writeRefusal == nil { return }
    }
    counters.rememberedLocally &+= 1
    memory.remember(outcome, of: request, now: now)
  }

  // MARK: - Answers

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    if let answer = takeAnswer() { return answer }
    while let event = connection.nextEvent() {
      switch event {
      case .reply(let tag, let head):
        if let admission = replied(tag: tag, head: head, now: now) { return admission }
      case .lost(let tag):
        lost(tag: tag, now: now)
      case .ready:
        connected(now: now)
      case .disconnected(let error):
        disconnected(error, now: now)
      }
    }
    while let entry = waiting.takeOverdue(now: now.monotonic) {
      counters.timeouts &+= 1
      answerLocally(entry, now: now)
      failed("Redis did not answer within \(settings.timeoutMilliseconds) ms", now: now)
    }
    maintain(now: now)
    return takeAnswer()
  }

  private func takeAnswer() -> (ticket: Ticket, admission: Admission)? {
    guard nextAnswer < answers.count else {
      if nextAnswer > 0 {
        answers.removeAll(keepingCapacity: true)
        nextAnswer = 0
      }
      return nil
    }
    nextAnswer += 1
    return answers[nextAnswer - 1]
  }

  private func replied(tag: UInt64, head: RedisValue, now: Now) -> (ticket: Ticket, admission: Admission)? {
    if tag & RedisConnection.requestBit != 0 {
      if tag == reloadTag {
        reloadTag = nil
      } else {
        replies.append((tag, connection.copyReply()))
      }
      return nil
    }
    guard let entry = waiting.popFirst() else { preconditionFailure("a reply without its command") }
    switch entry.kind {
    case .admission:
      return admitted(entry, head: head, now: now)
    case .memory:
      if head.kind == .error { refused(serverError(head), now: now) } else { writeSucceeded() }
      return nil
    case .probe:
      probed(head, now: now)
      return nil
    }
  }

  private func admitted(_ entry: Entry, head: RedisValue, now: Now) -> (ticket: Ticket, admission: Admission)? {
    if entry.isAnswered {
      counters.lateReplies &+= 1
      return nil
    }
    let admission: Admission
    switch head.kind {
    case .integer where head.integer == 0:
      admission = .proceed
      if writeRefusal != nil, entry.request.isRated, settings.limit != nil { writeSucceeded() }
    case .integer where head.integer > 0:
      admission = .limited(retryAfterMilliseconds: head.integer)
    case .integer:
      admission = .dead(unregisteredAt: 0 &- head.integer)
    case .bulk:
      guard let outcome = connection.withText(of: head, { RememberedOutcome(decoding: $0) }) else {
        counters.unreadable &+= 1
        answerLocally(entry, now: now)
        return nil
      }
      admission = .duplicate(outcome)
    case .error:
      let error = serverError(head)
      if error.kind == .noScript, !entry.isResent, resend(entry) { return nil }
      refused(error, now: now)
      answerLocally(entry, now: now)
      return nil
    case .status, .null, .array:
      counters.unreadable &+= 1
      answerLocally(entry, now: now)
      return nil
    }
    counters.answeredInTime &+= 1
    breaker.succeeded()
    return (entry.ticket, admission)
  }

  private func serverError(_ head: RedisValue) -> RedisServerError {
    connection.withText(of: head) { RedisServerError($0) }
  }

  /// The script cache was flushed: all that failed for it go out again, behind one SCRIPT LOAD.
  private func resend(_ entry: Entry) -> Bool {
    if reloadTag == nil {
      reloadTag = connection.reloadScript(0)
      counters.scriptReloads &+= 1
    }
    var again = entry
    again.isResent = true
    return sendAdmission(again)
  }

  // MARK: - Failing and recovering

  private func refused(_ error: RedisServerError, now: Now) {
    counters.errors &+= 1
    if error.isWriteRefusal {
      // The script had looked before it tried to write, so Redis still serves what it knows.
      writeRefusal = error
      breaker.succeeded()
      tell()
    } else {
      failed("Redis refuses: \(error)", now: now)
    }
  }

  private func writeSucceeded() {
    if writeRefusal == nil { return }
    writeRefusal = nil
    tell()
  }

  private func failed(_ reason: @autoclosure () -> String, now: Now) {
    guard breaker.failed(now: now.monotonic) else { return }
    outage = reason()
    tell()
  }

  private func lost(tag: UInt64, now: Now) {
    if tag & RedisConnection.requestBit != 0 {
      if tag == reloadTag { reloadTag = nil } else { replies.append((tag, nil)) }
      return
    }
    guard let entry = waiting.popFirst() else { preconditionFailure("a loss without its command") }
    if entry.kind == .admission, !entry.isAnswered { answerLocally(entry, now: now) }
  }

  private func connected(now: Now) {
    makeCommands()
    isSettled = true
    _ = breaker.connected()
    outage = nil
    writeRefusal = nil
    tell()
    let waited = early
    early = []
    for var entry in waited {
      entry.deadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds)
      ask(entry, now: now)
    }
  }

  private func disconnected(_ error: RedisError, now: Now) {
    counters.disconnects &+= 1
    isSettled = true
    _ = breaker.lost(now: now.monotonic)
    outage = error.description
    tell()
    let waited = early
    early = []
    for entry in waited { ask(entry, now: now) }
  }

  private func makeCommands() {
    commands = RedisScriptCommands(
      prefix: settings.prefix, digest: connection.scriptDigest(0), limit: settings.limit,
      outcomeSeconds: settings.outcomeSeconds, deadSeconds: settings.deadSeconds)
  }

  private func probed(_ head: RedisValue, now: Now) {
    var isHealthy = head.kind == .status
    if head.kind == .error {
      let error = serverError(head)
      isHealthy = error.isWriteRefusal
      if isHealthy { writeRefusal = error } else { outage = outage.map { _ in "Redis refuses: \(error)" } }
      if error.kind == .readOnly, nextReconnect <= now.monotonic {
        nextReconnect = now.monotonic.adding(milliseconds: RedisSharedState.replicaReconnectMilliseconds)
        connection.reconnect()
      }
    } else if isHealthy {
      writeRefusal = nil
    }
    if breaker.probeAnswered(isHealthy: isHealthy, now: now.monotonic) { outage = nil }
    tell()
  }

  /// Sends the probe that is due, and sees to it that the loop wakes for what comes next.
  private func maintain(now: Now) {
    if let deadline = waiting.nextDeadline() { wakeUp(at: deadline) }
    guard connection.isReady else { return }
    if breaker.isClosed {
      guard writeRefusal != nil else { return }
      if nextWriteProbe <= now.monotonic {
        sendProbe()
        nextWriteProbe = now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds)
      }
    } else if breaker.takeProbe(now: now.monotonic) {
      sendProbe()
    }
    wakeUp(at: now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds))
  }

  private func sendProbe() {
    guard let probe = commands?.probe, connection.send(probe, tag: 0) else { return }
    waiting.append(Entry(kind: .probe, request: Entry.noRequest))
  }

  /// One notice for each change between whole and degraded.
  private func tell() {
    let reason = outage ?? writeRefusal?.description
    if (reason != nil) == toldDegraded { return }
    toldDegraded = reason != nil
    notices.append(reason.map { .degraded(reason: $0) } ?? .recovered)
  }

  /// One timer, for the earliest of what is due: it only ends the loop's wait, the lane's turn does the rest.
  private func wakeUp(at instant: Instant) {
    if let wake, !wake.flag.hasFired {
      if wake.at <= instant { return }
      loop.cancel(wake.token)
    }
    let delay = max(0, instant.milliseconds(since: loop.now.monotonic)) + 1
    // The timer holds a flag and not this object: a weak reference would make every retain of it a slow one.
    let flag = WakeFlag()
    wake = (loop.schedule(afterMilliseconds: delay) { flag.hasFired = true }, instant, flag)
  }
}

/// Whether a timer has run.
private final class WakeFlag {
  var hasFired = false
}
