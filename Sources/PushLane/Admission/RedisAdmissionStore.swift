package import PushCore
package import PushIO

/// The admission store in Redis: one script call admits all that a turn of the lane asks for, one command stores the end of each (job,
/// target), all pipelined.
///
/// It never blocks the lane. Redis decides as long as it answers, however late: on a busy machine answers come late, and are still useful.
/// While it is silent (`SilenceState`), or answers with an error, the job proceeds with this lane's own memory for the rate: twice is
/// better than never. After failures that lasted for a while, or without a connection, memory answers at once, and a probe finds out when
/// Redis is back. Outcomes that Redis missed, or may have missed because the connection broke before its reply, are stored then; until
/// then this lane's memory is checked first.
///
/// It coordinates its parts, each with one task:
///
/// - `EarlyAdmissions`: those that wait until Redis is connected
/// - `RedisAdmissionNodes`, `RedisAdmissionNode`: commands and replies; in a cluster each node has its own queue
/// - `AdmissionServerState`: whether a node is asked, and stores outcomes; a node that is down degrades its part of a cluster
/// - `LocalAdmissions`: decides when Redis does not, and remembers what Redis missed
/// - `RedisCatchUp`: stores that in Redis when it is back
/// - `RedisRedirects`: commands whose slot is being migrated
///
/// Not Sendable: it belongs to its loop's thread.
package final class RedisAdmissionStore: AdmissionStore {
  typealias Entry = RedisAdmissionQueue.Entry

  private let loop: EventLoop
  private let router: RedisRouter
  private var settings: RedisAdmissionStoreSettings
  private var early = EarlyAdmissions()
  private var nodes: RedisAdmissionNodes
  private var local: LocalAdmissions
  private var catchUp: RedisCatchUp
  private var redirects: RedisRedirects
  private var answers = AdmissionAnswers()
  /// Answers to `request`.
  private var replies: [(id: UInt64, reply: RedisReply?)] = []
  private var notices = AdmissionNotices()
  private var timer: WakeTimer
  private var counted = AdmissionCounters()

  /// `tls` is required for `rediss://`. `seed` spreads reconnects.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, settings: RedisAdmissionStoreSettings,
    seed: UInt64
  ) {
    precondition(settings.timeoutMilliseconds > 0 && settings.outcomeSeconds > 0 && settings.deadSeconds > 0)
    self.loop = loop
    self.settings = settings
    router = RedisRouter(
      loop: loop, configuration: configuration, tls: tls, scripts: RedisScript.all, seed: seed)
    nodes = RedisAdmissionNodes(loop: loop, router: router, settings: settings)
    local = LocalAdmissions(settings: settings)
    catchUp = RedisCatchUp(turnMaximum: settings.catchUpMaximum)
    redirects = RedisRedirects(timeoutMilliseconds: settings.timeoutMilliseconds)
    timer = WakeTimer(loop: loop)
  }

  /// Connects now, and again after every loss.
  package func connect() {
    router.connect()
  }

  /// Writes what was sent, and closes. Waiting admissions are not answered any more.
  package func close() {
    router.close()
  }

  /// Closes every connection and makes new ones, for a lane that stands still. This lane's memory decides the open admissions.
  func restart(now: Now) {
    nodes.reconnect()
    guard !early.isOver else { return }
    early.hurry(now: now.monotonic)
    askEarly(now: now)
  }

  /// The limits for later admissions. Those that wait for an answer keep theirs.
  package func update(limits: RateLimits) {
    settings.limits = limits
    guard nodes.hasCommands else { return }
    // Calls were written with the old limits, so send them first.
    flush(now: loop.now)
    nodes.makeCommands(for: settings)
  }

  // MARK: - Health

  package var counters: AdmissionCounters {
    var counters = counted
    counters.caughtUp = catchUp.storedCount
    return counters
  }

  /// Of a cluster: to all of it.
  package var isConnected: Bool { router.isWhole }

  /// Why a feature does not work across workers now; nil: it does.
  package func degradation(of feature: AdmissionFeature) -> String? {
    switch feature {
    case .rateLimit where settings.limits.isEmpty: nil
    case .duplicates, .deadTokens, .rateLimit: nodes.trouble
    }
  }

  /// What changed, for the log.
  package func nextNotice() -> AdmissionNotice? { notices.next() }

  private func tell(_ silence: SilenceState.Stretch?) {
    guard let silence, silence.decidedCount > 0 else { return }
    counted.silences &+= 1
    notices.note(silence)
  }

  private func tell() {
    // What is not connected yet is no news.
    if early.isOver { notices.note(trouble: nodes.trouble) }
  }

  // MARK: - Other commands

  /// Sends any command on the first connection that is up, behind the others; nil where there is none. Not for the hot path.
  package func request(_ arguments: [String]) -> UInt64? {
    nodes.indices.lazy.map { self.nodes[$0].connection }.first { $0.isReady }?.request(arguments)
  }

  /// The next answer to `request`, read by `nextAdmission`; a nil reply: lost, the command may have been executed.
  package func nextReply() -> (id: UInt64, reply: RedisReply?)? {
    replies.isEmpty ? nil : replies.removeFirst()
  }

  // MARK: - Asking

  package func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    counted.admissions &+= 1
    let entry = Entry(
      kind: .admission, ticket: ticket,
      request: AdmissionRequest(
        job, device: device, apnsID: apnsID, arrival: arrival, limits: settings.limits))
    if early.isOver { ask(entry, now: now) } else { early.append(entry) }
  }

  private func ask(_ entry: Entry, now: Now) {
    var entry = entry
    if let known = local.recall(entry.request, now: now) {
      guard let objection = LocalObjection(known) else {
        counted.decidedLocally &+= 1
        answers.append(entry.ticket, known)
        return
      }
      entry.object(objection)
    }
    entry.deadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds)
    if !ask(entry, of: nodes.node(for: entry.request), now: now) { decideLocally(entry, now: now) }
  }

  private func ask(_ entry: Entry, of node: RedisAdmissionNode, now: Now) -> Bool {
    guard node.ask(entry) else { return false }
    if node.askedCount == nodes.callMaximum { flush(node, now: now) }
    return true
  }

  package func flush(now: Now) {
    for index in nodes.indices { flush(nodes[index], now: now) }
  }

  private func flush(_ node: RedisAdmissionNode, now: Now) {
    if node.askedCount == 0 { return }
    for entry in node.sendCall() { decideLocally(entry, now: now) }
  }

  /// Redis is late, failed or not in use.
  private func decideLocally(_ entry: Entry, now: Now) {
    counted.decidedLocally &+= 1
    if entry.request.isRated, entry.request.claim != 0, !settings.limits.isEmpty { counted.ratesDecidedLocally &+= 1 }
    answers.append(entry.ticket, entry.answer(local.decide(entry.request, now: now)))
  }

  /// Checked every turn.
  private func askEarly(now: Now) {
    let waited = early.take(
      isSettled: router.isSettled, maximumMilliseconds: router.configuration.connectTimeoutMilliseconds,
      now: now.monotonic)
    guard let waited else { return timer.wake(at: early.deadline) }
    tell()
    for entry in waited { ask(entry, now: now) }
  }

  // MARK: - Telling

  package func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    let isLate = local.takeClaim(of: request)
    let unconfirmed = UnconfirmedOutcome(request: request, outcome: outcome)
    if nodes.send(unconfirmed, isLate: isLate, to: nodes.node(for: request)) {
      counted.remembered &+= 1
    } else {
      keep(unconfirmed, now: now)
    }
  }

  package func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    if !nodes.send(outcome, claim: claim, of: request, to: nodes.node(for: request)) {
      local.rememberFate(outcome, claim: claim, of: request, now: now)
    }
  }

  /// Keeps it until Redis takes it.
  private func keep(_ unconfirmed: UnconfirmedOutcome, now: Now) {
    counted.rememberedLocally &+= 1
    local.remember(unconfirmed.outcome, of: unconfirmed.request, now: now)
  }

  package func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {
    guard job.targetKind != .channel else { return }
    let request = AdmissionRequest(job, device: device, limits: settings.limits)
    // Also here, in case Redis goes down meanwhile.
    local.tighten(request, now: now)
    let node = nodes.node(for: request)
    if node.takesOutcomes { _ = nodes.tighten(Entry(kind: .tighten, request: request), at: node) }
  }

  // MARK: - The turn

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    if let answer = answers.take() { return answer }
    while let (index, event) = router.nextEvent() {
      followRouter(now: now)
      switch event {
      case .reply(let tag, let head):
        replied(tag: tag, head: head, from: index, now: now)
        if let answer = answers.take() { return answer }
      case .lost(let tag):
        lost(tag: tag, from: nodes[index], now: now)
      case .ready:
        connected(nodes[index])
      case .disconnected(let error):
        counted.disconnects &+= 1
        tell(nodes[index].lost())
        nodes[index].state.disconnected(error.description, now: now.monotonic)
        tell()
      }
    }
    followRouter(now: now)
    if !early.isOver { askEarly(now: now) }
    askPostponed(now: now)
    for index in nodes.indices { takeOverdue(nodes[index], now: now) }
    if catchUp.turn(&local, &nodes, now: now) { timer.wake(at: now.monotonic) }
    for index in nodes.indices { maintain(index, now: now) }
    return answers.take()
  }

  private func followRouter(now: Now) {
    guard let unsent = nodes.followRouter() else { return }
    for entry in unsent { decideLocally(entry, now: now) }
    // A node that no longer owns slots is not a problem.
    tell()
  }

  private func takeOverdue(_ node: RedisAdmissionNode, now: Now) {
    tell(node.listen())
    while let entry = node.takeOverdue() {
      counted.timeouts &+= 1
      decideLocally(entry, now: now)
      failed(node, "Redis did not answer within \(settings.timeoutMilliseconds) ms", now: now)
    }
  }

  private func askPostponed(now: Now) {
    for entry in redirects.takeDue(now: now.monotonic)
    where now.monotonic >= entry.deadline || !ask(entry, of: nodes.node(for: entry.request), now: now) {
      decideLocally(entry, now: now)
    }
    if let next = redirects.next { timer.wake(at: next) }
  }

  /// Sends a due probe, and schedules the loop's wake-up for what is due next.
  private func maintain(_ index: Int, now: Now) {
    let node = nodes[index]
    if let deadline = node.silence.deadline { timer.wake(at: deadline) }
    guard node.connection.isReady, !node.state.takesOutcomes else { return }
    // Its slots may move to another node.
    if !node.state.isAsked { router.doubt() }
    if node.state.takeProbe(now: now.monotonic) { nodes.sendProbe(index) }
    timer.wake(at: now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds))
  }

  private func connected(_ node: RedisAdmissionNode) {
    if !nodes.hasCommands { nodes.makeCommands(for: settings) }
    node.state.connected()
    tell()
  }

  // MARK: - Replies

  /// `tag`: the number of entries in the command.
  private func replied(tag: UInt64, head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if tag & RedisConnection.requestBit != 0 {
      if !node.takeReload(tag) { replies.append((tag, node.connection.copyReply())) }
      return
    }
    // One answer for all, or a list with one for each.
    let isList = head.kind == .array && head.integer == Int64(tag) && node.connection.valueCount == Int(tag) + 1
    for position in 0..<Int(tag) {
      let entry = node.takeWaiting()
      switch entry.kind {
      case .admission:
        admitted(entry, isList ? node.connection.value(at: position + 1) : head, from: index, now: now)
      case .memory:
        confirmed(head, from: index, now: now)
      case .tighten:
        guard head.kind == .error else { break }
        let error = RedisServerError(head, on: node.connection)
        if !isRedirected(error, entry, from: index, now: now) { refused(node, error, now: now) }
      case .probe:
        probed(head, from: index, now: now)
      case .unwatched:
        break
      }
    }
  }

  private func lost(tag: UInt64, from node: RedisAdmissionNode, now: Now) {
    if tag & RedisConnection.requestBit != 0 {
      if !node.takeReload(tag) { replies.append((tag, nil)) }
      return
    }
    for _ in 0..<tag {
      let entry = node.takeWaiting()
      switch entry.kind {
      case .admission:
        if !entry.isAnswered { decideLocally(entry, now: now) }
      case .memory:
        // It may have been executed; storing it twice is harmless.
        keep(node.takeUnconfirmed(), now: now)
      case .tighten, .probe, .unwatched:
        break
      }
    }
  }

  private func admitted(_ entry: Entry, _ value: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if entry.isAnswered {
      counted.lateReplies &+= 1
      if value.kind != .error { node.state.answered() }
      return
    }
    switch RedisAdmissionReply(value, on: node.connection) {
    case .admission(let admission):
      // It left a claim.
      if case .proceed = admission, entry.request.claim != 0, node.state.stored() { tell() }
      counted.answeredInTime &+= 1
      node.state.answered()
      answers.append(entry.ticket, entry.answer(admission))
    case .error(let error):
      if error.kind == .noScript, isAskedAgain(entry, of: node, now: now) { return }
      if isRedirected(error, entry, from: index, now: now) { return }
      refused(node, error, now: now)
      decideLocally(entry, now: now)
    case .unreadable:
      counted.unreadable &+= 1
      decideLocally(entry, now: now)
    }
  }

  /// The result for an outcome that was sent.
  private func confirmed(_ head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if head.kind != .error {
      if node.state.stored() { tell() }
      if let unconfirmed = node.confirmed(keyBytes: head.integer), !isSentAgain(unconfirmed, to: node) {
        keep(unconfirmed, now: now)
      }
      return
    }
    let unconfirmed = node.takeUnconfirmed()
    let error = RedisServerError(head, on: node.connection)
    if error.kind == .noScript {
      loadScripts(of: node)
      if isSentAgain(unconfirmed, to: node) { return }
    }
    let redirect = router.redirect(error, from: index)
    followRouter(now: now)
    if let redirect, isSent(unconfirmed, after: redirect) { return }
    keep(unconfirmed, now: now)
    if redirect == nil { refused(node, error, now: now) }
  }

  private func probed(_ head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    let answer: AdmissionServerState.ProbeAnswer
    switch head.kind {
    case .status:
      answer = .healthy
    case .error:
      let error = RedisServerError(head, on: node.connection)
      if error.kind == .noScript { loadScripts(of: node) }
      switch router.redirect(error, from: index) {
      case .moved, .ask:
        // It serves its part of the cluster, which has changed.
        answer = .healthy
      case .later, nil:
        answer = error.isWriteRefusal ? .refusesWrites(reason: error.description) : .refused(reason: refusal(error))
      }
      if error.kind == .readOnly, node.state.takeReconnect(now: now.monotonic) { router.demoted(index) }
      followRouter(now: now)
    case .integer, .bulk, .null, .array:
      answer = .unreadable
    }
    node.state.probeAnswered(answer, now: now.monotonic)
    tell()
  }

  // MARK: - Failures

  private func refused(_ node: RedisAdmissionNode, _ error: RedisServerError, now: Now) {
    counted.errors &+= 1
    guard error.isWriteRefusal else { return failed(node, refusal(error), now: now) }
    // The script reads before it writes, so Redis can still be asked.
    node.state.refusedWrite(error.description)
    tell()
  }

  private func refusal(_ error: RedisServerError) -> String { "Redis refuses: \(error)" }

  private func failed(_ node: RedisAdmissionNode, _ reason: @autoclosure () -> String, now: Now) {
    guard node.state.failed(reason(), now: now.monotonic) else { return }
    tell()
    router.doubt()
  }

  // MARK: - Sending again

  /// The script cache was flushed: all commands that failed because of it are sent again, after one load.
  private func isAskedAgain(_ entry: Entry, of node: RedisAdmissionNode, now: Now) -> Bool {
    guard let again = entry.again else { return false }
    loadScripts(of: node)
    return ask(again, of: node, now: now)
  }

  private func loadScripts(of node: RedisAdmissionNode) {
    if node.loadScripts() { counted.scriptReloads &+= 1 }
  }

  /// The slot belongs to another node: the command is sent there.
  private func isRedirected(_ error: RedisServerError, _ entry: Entry, from index: Int, now: Now) -> Bool {
    guard let redirect = router.redirect(error, from: index) else { return false }
    // Even if it is not sent again: the slot's node may be new.
    followRouter(now: now)
    guard let again = entry.again else { return false }
    guard let target = nodes.target(of: redirect) else {
      guard redirect == .later, entry.kind == .admission, redirects.postpone(entry, now: now.monotonic) else {
        return false
      }
      failed(nodes[index], refusal(error), now: now)
      return true
    }
    counted.redirects &+= 1
    switch entry.kind {
    case .admission: return ask(again, of: target, now: now)
    case .tighten: return nodes.tighten(again, at: target)
    case .memory, .probe, .unwatched: preconditionFailure("not redirected")
    }
  }

  /// Sends it to the slot's other node at once: a question about the job at this moment is sent there too, after it.
  private func isSent(_ unconfirmed: UnconfirmedOutcome, after redirect: RedisClusterState.Redirect) -> Bool {
    guard let again = unconfirmed.again, let target = nodes.target(of: redirect),
      nodes.send(again, isLate: false, to: target)
    else { return false }
    counted.redirects &+= 1
    return true
  }

  /// Stores the outcome in full.
  private func isSentAgain(_ unconfirmed: UnconfirmedOutcome, to node: RedisAdmissionNode) -> Bool {
    guard let again = unconfirmed.again else { return false }
    return nodes.send(again, isLate: true, to: node)
  }
}
