package import PushCore
package import PushIO

/// The admission store in Redis: one script call admits what a turn of the lane asks for, one command remembers the end of each
/// (job, target), all pipelined.
///
/// It never stops the lane. An answer that is late or an error lets the job proceed, with this lane's own memory for the
/// rate: twice is better than never. Late is what waits for `timeoutMilliseconds` while Redis says nothing at all, or
/// `patience` times as long while it answers others: on a busy machine answers come late together, and are still worth
/// having. After failures that went on for a while, or without a connection, memory answers at once, and a probe finds
/// out when Redis is back. What Redis missed meanwhile, or may have missed because the connection broke before its
/// reply, it is told then; until then this lane's memory is looked at first. One exception: until all of Redis is connected or a connection failed,
/// admissions wait, at most for the connect timeout: a worker that starts gets the jobs back that the one before it had
/// answered.
///
/// In a cluster each node has its own queue and breaker (`RedisAdmissionNode`): one that is away degrades its part.
///
/// Not Sendable: it belongs to the thread of its loop.
package final class RedisAdmissionStore: AdmissionStore {
  package internal(set) var counters = AdmissionCounters()

  typealias Entry = RedisAdmissionQueue.Entry

  let loop: EventLoop
  let router: RedisRouter
  var settings: RedisAdmissionStoreSettings
  var commands: RedisScriptCommands?
  var admissionFormat: RedisAdmissionFormat?
  /// (job, target)s of one call: in a cluster each has a slot of its own.
  private let admissionsMaximum: Int
  private var memory: AdmissionMemory
  private let breakerSettings: BreakerState.Settings
  /// By the router's numbers.
  var nodes: [RedisAdmissionNode] = []
  /// Admissions whose slot is between two nodes of a cluster: asked again at this time.
  var postponed: [(entry: Entry, at: Instant)] = []
  /// Admissions of before all was connected, or known to fail.
  var early: [Entry] = []
  var isSettled = false
  /// When these are asked in any case; nil before the first turn.
  var settleDeadline: Instant?
  /// The router's, when `nodes` were made after its connections.
  private var routerVersion: UInt64?
  private var answers: [(ticket: Ticket, admission: Admission)] = []
  private var nextAnswer = 0
  var replies: [(id: UInt64, reply: RedisReply?)] = []
  var toldDegraded = false
  var notices: [AdmissionNotice] = []
  var wake: (token: TimerToken, at: Instant, flag: WakeFlag)?

  /// A replica does not become a primary by waiting: its address is looked up again this often.
  static let replicaReconnectMilliseconds: Int64 = 5000
  /// Names that are tried to find a key of a cluster's node.
  static let probeKeysMaximum = 512
  /// A slot on its way from one node to another is there in milliseconds; one whose node died, in seconds.
  static let postponeMilliseconds: Int64 = 5
  static let postponeMaximumMilliseconds: Int64 = 100
  /// A call that asks for more would keep Redis from its other clients for too long.
  private static let callMaximum = 64
  /// NOSCRIPT and redirects of one command: more is a server that does not know itself.
  static let resendsMaximum: UInt8 = 5

  /// `tls` is needed for `rediss://`. `seed` spreads reconnects.
  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, settings: RedisAdmissionStoreSettings,
    seed: UInt64
  ) {
    precondition(settings.timeoutMilliseconds > 0 && settings.outcomeSeconds > 0 && settings.deadSeconds > 0)
    self.loop = loop
    self.settings = settings
    router = RedisRouter(
      loop: loop, configuration: configuration, tls: tls, scripts: RedisScript.all, seed: seed)
    admissionsMaximum = router.isCluster ? 1 : RedisAdmissionStore.callMaximum
    var memorySettings = AdmissionMemory.Settings()
    memorySettings.shares = settings.localShares
    memorySettings.outcomeSeconds = settings.outcomeSeconds
    memorySettings.claimSeconds = settings.claimSeconds
    memorySettings.deadSeconds = settings.deadSeconds
    memorySettings.tightMilliseconds = settings.tightMilliseconds
    memorySettings.collapseMilliseconds = settings.collapseMilliseconds
    memory = AdmissionMemory(settings: memorySettings)
    var breaker = BreakerState.Settings()
    breaker.failuresMaximum = settings.failuresMaximum
    breaker.failingMilliseconds = settings.failingMilliseconds
    breaker.probeIntervalMilliseconds = settings.probeIntervalMilliseconds
    breaker.probeTimeoutMilliseconds = settings.timeoutMilliseconds * settings.patience
    breakerSettings = breaker
    addNodes()
  }

  deinit {
    if let wake { loop.cancel(wake.token) }
  }

  /// Connects, now and after every loss.
  package func connect() {
    router.connect()
  }

  /// Flushes what was sent, and ends. Admissions that wait are not answered any more.
  package func close() {
    router.close()
  }

  /// The limits for what is admitted from now on. What waits for an answer keeps its own.
  package func update(limits: RateLimits) {
    settings.limits = limits
    if commands != nil { makeCommands() }
  }

  /// One for each of the router's connections; one that hung up has nothing waiting, and is not this one's any more.
  func addNodes() {
    guard routerVersion != router.version else { return }
    routerVersion = router.version
    for (index, connection) in router.connections.enumerated() {
      if index < nodes.count, nodes[index].connection === connection { continue }
      let node = RedisAdmissionNode(connection: connection, breaker: breakerSettings)
      node.admissions = admissionFormat.map { RedisAdmissionCall(format: $0) }
      if index < nodes.count {
        precondition(nodes[index].waiting.count == 0, "what waits for a node would be another one's")
        flush(nodes[index], now: loop.now)
        nodes[index] = node
      } else {
        nodes.append(node)
      }
    }
    // Who owns no slot any more is no trouble.
    tell()
  }

  // MARK: - Health

  /// Of a cluster: to all of it.
  package var isConnected: Bool { router.isWhole }

  /// Why a feature does not work across replicas now; nil: it does.
  package func degradation(of feature: AdmissionFeature) -> String? {
    switch feature {
    case .rateLimit where settings.limits.isEmpty: nil
    case .duplicates, .deadTokens, .rateLimit: trouble
    }
  }

  var trouble: String? {
    for node in nodes.indices where router.isOwner(node) {
      if let trouble = nodes[node].trouble { return trouble }
    }
    return nil
  }

  /// What changed, for the log.
  package func nextNotice() -> AdmissionNotice? {
    notices.isEmpty ? nil : notices.removeFirst()
  }

  // MARK: - Other commands

  /// Sends any command on the first connection that is up, behind the others; nil where there is none. Not for the hot path.
  package func request(_ arguments: [String]) -> UInt64? {
    nodes.first { $0.connection.isReady }?.connection.request(arguments)
  }

  /// The next answer to `request`, read by `nextAdmission`; a nil reply: lost, it may have run or not.
  package func nextReply() -> (id: UInt64, reply: RedisReply?)? {
    replies.isEmpty ? nil : replies.removeFirst()
  }

  // MARK: - Asking

  package func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    counters.admissions &+= 1
    let entry = Entry(
      kind: .admission, ticket: ticket,
      deadline: now.monotonic.adding(milliseconds: settings.timeoutMilliseconds),
      lastDeadline: now.monotonic.adding(milliseconds: settings.timeoutMilliseconds &* settings.patience),
      request: AdmissionRequest(job, device: device, apnsID: apnsID, arrival: arrival, limits: settings.limits))
    guard isSettled else {
      early.append(entry)
      return
    }
    ask(entry, now: now)
  }

  func ask(_ entry: Entry, now: Now) {
    if memory.mayRecall(now: now), let known = memory.recall(entry.request, now: now) {
      counters.decidedLocally &+= 1
      answers.append((entry.ticket, known))
      return
    }
    if !sendAdmission(entry, to: nodes[node(for: entry.request)]) { answerLocally(entry, now: now) }
  }

  package func flush(now: Now) {
    for node in nodes { flush(node, now: now) }
  }

  /// Sends what was asked for so far.
  func flush(_ node: RedisAdmissionNode, now: Now) {
    guard let count = node.admissions?.entries.count, count > 0 else { return }
    let isSent = node.admissions?.send(on: node.connection) == true
    for index in 0..<count {
      guard let entry = node.admissions?.entries[index] else { break }
      if isSent { node.waiting.append(entry) } else { answerLocally(entry, now: now) }
    }
    node.admissions?.removeAll()
    if let deadline = node.waiting.nextDeadline() { wakeUp(at: deadline) }
  }

  /// The number of the node that has the device's keys.
  func node(for request: AdmissionRequest) -> Int {
    guard router.isCluster else { return 0 }
    var tag = InlineArray<22, UInt8>(repeating: 0)
    var span = tag.mutableSpan
    request.device.writeText(into: &span, at: 0)
    return router.node(ofSlot: RedisSlot.of(tag: tag.span))
  }

  func sendAdmission(_ entry: Entry, to node: RedisAdmissionNode) -> Bool {
    guard node.breaker.isClosed, node.waiting.count < settings.waitingMaximum, node.connection.isReady,
      node.admissions?.append(entry) != nil
    else { return false }
    if node.admissions?.entries.count == admissionsMaximum { flush(node, now: loop.now) }
    return true
  }

  /// Late, failed or spared: what this lane itself saw decides, and its share of the rate. Nobody knows whether the job was sent
  /// before, or is on its way at another lane.
  func answerLocally(_ entry: Entry, now: Now) {
    counters.decidedLocally &+= 1
    if entry.request.isRated, !settings.limits.isEmpty { counters.ratesDecidedLocally &+= 1 }
    answers.append((entry.ticket, memory.admit(entry.request, now: now).asRepeated))
  }

  package func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    // What was admitted here has no claim there.
    let isLate = memory.takeClaim(of: request)
    if sendMemory(outcome, of: request, isLate: isLate, to: nodes[node(for: request)], now: now) {
      counters.remembered &+= 1
    } else {
      keep(outcome, of: request, now: now)
    }
  }

  private func sendMemory(
    _ outcome: RememberedOutcome, of request: AdmissionRequest, isLate: Bool = false, resends: UInt8 = 0,
    to node: RedisAdmissionNode, now: Now
  ) -> Bool {
    guard node.breaker.isClosed, node.writeRefusal == nil, node.waiting.count < settings.waitingMaximum else {
      return false
    }
    let byteCount =
      isLate
      ? commands?.sendLateMemory(outcome, of: request, on: node.connection)
      : commands?.sendMemory(outcome, of: request, on: node.connection)
    guard let byteCount else { return false }
    node.waiting.append(Entry(kind: .memory, request: Entry.noRequest))
    node.unconfirmed.append(
      RedisOutcomeQueue.Entry(request: request, outcome: outcome, byteCount: byteCount, resends: resends))
    return true
  }

  /// Until Redis can be told.
  func keep(_ outcome: RememberedOutcome, of request: AdmissionRequest, now: Now) {
    counters.rememberedLocally &+= 1
    memory.remember(outcome, of: request, now: now)
  }

  /// Tells Redis what it missed, some of it each turn.
  private func catchUp(now: Now) {
    guard !memory.isEmpty, trouble == nil else { return }
    for _ in 0..<settings.catchUpMaximum {
      guard let (request, outcome) = memory.takeRemembered() else { return }
      guard sendMemory(outcome, of: request, isLate: true, to: nodes[node(for: request)], now: now) else {
        memory.remember(outcome, of: request, now: now)
        return
      }
      counters.caughtUp &+= 1
    }
    wakeUp(at: now.monotonic)
  }

  package func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {
    guard job.targetKind != .channel else { return }
    let request = AdmissionRequest(job, device: device, limits: settings.limits)
    let node = nodes[node(for: request)]
    // Also here, for the case that Redis goes away meanwhile.
    memory.tighten(request, now: now)
    guard node.breaker.isClosed, node.writeRefusal == nil, node.waiting.count < settings.waitingMaximum,
      commands?.sendTightening(request, on: node.connection) == true
    else { return }
    node.waiting.append(Entry(kind: .tighten, request: request))
  }

  // MARK: - Answers

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    if let answer = takeAnswer() { return answer }
    while let (index, event) = router.nextEvent() {
      addNodes()
      switch event {
      case .reply(let tag, let head):
        nodes[index].lastReply = now.monotonic
        replied(tag: tag, head: head, from: index, now: now)
        if let answer = takeAnswer() { return answer }
      case .lost(let tag):
        lost(tag: tag, nodes[index], now: now)
      case .ready:
        connected(nodes[index], now: now)
      case .disconnected(let error):
        disconnected(nodes[index], error, now: now)
      }
    }
    addNodes()
    if !isSettled { settleIfDue(now: now) }
    if !postponed.isEmpty { askPostponed(now: now) }
    for node in nodes { takeOverdue(node, now: now) }
    catchUp(now: now)
    for index in nodes.indices { maintain(index, now: now) }
    return takeAnswer()
  }

  private func takeOverdue(_ node: RedisAdmissionNode, now: Now) {
    let isSilent = now.monotonic >= node.lastReply.addingMilliseconds(settings.timeoutMilliseconds)
    while let entry = node.waiting.takeOverdue(now: now.monotonic, isSilent: isSilent) {
      counters.timeouts &+= 1
      answerLocally(entry, now: now)
      failed(node, "Redis did not answer within \(settings.timeoutMilliseconds) ms", now: now)
    }
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

  /// `tag`: how many entries the command is for.
  private func replied(tag: UInt64, head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if tag & RedisConnection.requestBit != 0 {
      if !node.takeReload(tag) { replies.append((tag, node.connection.copyReply())) }
      return
    }
    // One answer for all, or a list with one for each.
    let isList = head.kind == .array && head.integer == Int64(tag) && node.connection.valueCount == Int(tag) + 1
    for position in 0..<Int(tag) {
      guard let entry = node.waiting.popFirst() else { preconditionFailure("a reply without its command") }
      switch entry.kind {
      case .admission:
        admitted(entry, isList ? node.connection.value(at: position + 1) : head, from: index, now: now)
      case .memory:
        confirmed(head, from: index, now: now)
      case .tighten:
        if head.kind == .error, !isRedirected(serverError(head, node), entry, from: index) {
          refused(node, serverError(head, node), now: now)
        }
      case .probe:
        probed(index, head, now: now)
      case .asking:
        break
      }
    }
  }

  private func admitted(_ entry: Entry, _ head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if entry.isAnswered {
      counters.lateReplies &+= 1
      if head.kind != .error { node.breaker.succeeded() }
      return
    }
    let admission: Admission
    switch head.kind {
    case .integer where head.integer == 0:
      admission = .proceed
      writeSucceeded(node)
    case .integer where head.integer > 0:
      admission = .limited(retryAfterMilliseconds: head.integer)
    case .integer:
      admission = .dead(unregisteredAt: 0 &- head.integer)
    case .status:
      admission = node.connection.withText(of: head) { Admission(status: $0) }
    case .bulk:
      guard let outcome = node.connection.withText(of: head, { RememberedOutcome(decoding: $0) }) else {
        counters.unreadable &+= 1
        answerLocally(entry, now: now)
        return
      }
      admission = .duplicate(outcome)
    case .error:
      let error = serverError(head, node)
      if error.kind == .noScript, resend(entry, to: node) { return }
      if isRedirected(error, entry, from: index) { return }
      refused(node, error, now: now)
      answerLocally(entry, now: now)
      return
    case .null, .array:
      counters.unreadable &+= 1
      answerLocally(entry, now: now)
      return
    }
    counters.answeredInTime &+= 1
    node.breaker.succeeded()
    answers.append((entry.ticket, admission))
  }

  /// What became of an outcome that was sent.
  private func confirmed(_ head: RedisValue, from index: Int, now: Now) {
    let node = nodes[index]
    if head.kind != .error {
      writeSucceeded(node)
      if Int(head.integer) != node.unconfirmed.firstByteCount {
        node.unconfirmed.removeFirst()
      } else {
        // Nothing else is in the key: Redis forgot it meanwhile, and it was made anew, without claim and end.
        let told = node.unconfirmed.popFirst()
        if !isTold(told, to: node, now: now) { keep(told.outcome, of: told.request, now: now) }
      }
      return
    }
    let told = node.unconfirmed.popFirst()
    let error = serverError(head, node)
    if error.kind == .noScript {
      loadAgain(node)
      if isTold(told, to: node, now: now) { return }
    }
    let redirect = router.redirect(error, from: index)
    addNodes()
    if let redirect, isTold(told, after: redirect, now: now) { return }
    keep(told.outcome, of: told.request, now: now)
    if redirect == nil { refused(node, error, now: now) }
  }

  /// Tells the slot's other node at once: who asks about the job in this moment is sent there too, behind it.
  private func isTold(_ told: RedisOutcomeQueue.Entry, after redirect: RedisClusterState.Redirect, now: Now) -> Bool {
    guard told.resends < RedisAdmissionStore.resendsMaximum, let target = target(of: redirect) else { return false }
    guard sendMemory(told.outcome, of: told.request, resends: told.resends + 1, to: target, now: now) else {
      return false
    }
    counters.redirects &+= 1
    return true
  }

  /// Tells it with all that belongs to it.
  private func isTold(_ told: RedisOutcomeQueue.Entry, to node: RedisAdmissionNode, now: Now) -> Bool {
    told.resends < RedisAdmissionStore.resendsMaximum
      && sendMemory(told.outcome, of: told.request, isLate: true, resends: told.resends + 1, to: node, now: now)
  }

  func serverError(_ head: RedisValue, _ node: RedisAdmissionNode) -> RedisServerError {
    node.connection.withText(of: head) { RedisServerError($0) }
  }

  /// The script cache was flushed: all that failed for it go out again, behind one load.
  private func resend(_ entry: Entry, to node: RedisAdmissionNode) -> Bool {
    guard entry.resends < RedisAdmissionStore.resendsMaximum else { return false }
    loadAgain(node)
    var again = entry
    again.resends += 1
    return sendAdmission(again, to: node)
  }

  private func loadAgain(_ node: RedisAdmissionNode) {
    guard node.reloadTags.isEmpty else { return }
    node.reloadTags = RedisScript.all.indices.compactMap { node.connection.reloadScript($0) }
    counters.scriptReloads &+= 1
  }
}
