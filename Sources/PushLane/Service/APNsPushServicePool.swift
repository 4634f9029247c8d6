import PushCore
import PushCredentials
import PushIO

/// One pool of a lane: the connections of one (credential, environment, kind), and what `PoolState` and
/// `ConnectionState` decided for them, done.
final class APNsPool {
  /// One connection at its place. An object, so that looking at one field copies no other.
  private final class Link {
    let connection: HTTP2ClientConnection
    var state: ConnectionState
    let serial: UInt32
    var hasSent = false
    /// A GOAWAY or an advice took it out of the pool's choice.
    var hasLeft = false
    /// What came last when it gave its buffers back.
    var restsSince: Instant?

    init(connection: HTTP2ClientConnection, state: ConnectionState, serial: UInt32) {
      self.connection = connection
      self.state = state
      self.serial = serial
    }
  }

  let index: Int
  let credential: String
  let environment: APNsEnvironment
  let kind: APNsPoolKind
  private let host: APNsHost
  private let tls: TLSContext?
  private(set) var state: PoolState
  private var links: [Link?]
  /// The list of requests of each place.
  private let lists: [UInt16]
  private let writer: APNsSharedWriter
  private(set) var lastError: String?
  /// `apns-expiration` of the broadcast that is sent next.
  var broadcastExpiration: Int64 = 0
  private var isSaidBroken = false
  /// Errors that were said since the host answered last: each of them once, also where they take turns.
  private var saidErrors: Set<String> = []
  private static let saidErrorsMaximum = 8
  private static let restMilliseconds: Int64 = 1000

  init(
    index: Int, credential: Credential, environment: APNsEnvironment, kind: APNsPoolKind, context: inout APNsContext
  ) {
    self.index = index
    self.credential = credential.name
    self.environment = environment
    self.kind = kind
    let configuration = context.configuration
    host = configuration.host(environment, kind)
    tls = host.isPlaintext ? nil : credential.tls
    var limits = configuration.poolLimits
    limits.connectionsMaximum = kind == .badTokens ? 1 : configuration.connectionsMaximum
    state = PoolState(limits: limits)
    links = Array(repeating: nil, count: state.placeCount)
    lists = links.map { _ in context.requests.makeList() }
    writer = context.writer(for: host.authority)
  }

  /// Sends a request; false: no connection has room now.
  func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, ticket: Ticket, token: ProviderTokens.Current?,
    pauseKey: PauseKey, targetHash: UInt64, now: Now, context: inout APNsContext
  ) -> Bool {
    let byteCount = Int(job.payload.count)
    guard let place = state.take(byteCount: byteCount, now: now.monotonic) else { return false }
    let request = context.requests.insert(
      RequestTable.Request(
        send: ticket, sentAt: now.monotonic, list: lists[place], tokenSerial: token?.serial ?? 0,
        pauseKey: pauseKey, targetHash: targetHash))
    guard isSubmitted(job, target, apnsID, request, token, at: place) else {
      // It knows better than what it told: nothing more for it in this turn.
      _ = context.requests.remove(request)
      state.giveBack(place: place, byteCount: byteCount)
      if let connection = links[place]?.connection {
        state.update(place: place, inFlight: connection.streamsInFlight, streamLimit: 0, window: 0)
      }
      return false
    }
    context.counters.requests += 1
    if links[place]?.state.sent() == true { leave(place) }
    return true
  }

  private func isSubmitted(
    _ job: borrowing PushJob, _ target: Int, _ apnsID: UUIDValue, _ request: Ticket,
    _ token: ProviderTokens.Current?, at place: Int
  ) -> Bool {
    guard let connection = links[place]?.connection else { preconditionFailure("the pool chose an empty place") }
    let isFirst = links[place]?.hasSent == false
    let authorization = token?.authorization ?? []
    switch kind {
    case .device, .badTokens:
      writer.requests.writeDevice(job, target: target, apnsID: apnsID, authorization: authorization, isFirst: isFirst)
    case .broadcast:
      writer.requests.writeBroadcast(
        job, target: target, apnsID: apnsID, authorization: authorization, expiration: broadcastExpiration,
        isFirst: isFirst)
    }
    guard
      connection.submit(writer.requests.headers, body: job.bytes, bodyRange: job.payload.range, ticket: request)
    else { return false }
    if isFirst { links[place]?.hasSent = true }
    return true
  }

  // MARK: - Once a turn

  /// Takes what happened on every connection, then does what is due.
  func maintain(now: Now, context: inout APNsContext) {
    for place in links.indices where links[place] != nil {
      takeEvents(place, now, &context)
      watch(place, now, &context)
      update(place)
      rest(place, now, &context)
    }
    while true {
      switch state.turn(now: now.monotonic) {
      case .none: return
      case .open(let place): open(place, now, &context)
      case .drain(let place): links[place]?.state.drain(.unneeded)
      case .ping(let place): ask(place, now, &context)
      }
    }
  }

  private func takeEvents(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard let connection = links[place]?.connection else { return }
    links[place]?.state.received(now: connection.lastReceived)
    while let event = connection.nextEvent() {
      switch event {
      case .response(let name, let status):
        if status != 200 || links[place]?.state.hasAnswered == false { lookAtDate(connection, now, &context) }
        links[place]?.state.answered(now: now.monotonic)
        guard let request = context.requests.remove(name) else { break }
        answered(PushAnswer(response: request.send, status: status, from: connection), request, place, now, &context)
      case .notProcessed(let name):
        unanswered(name, .notProcessed, place, &context)
      case .lost(let name, _):
        unanswered(name, .lost, place, &context)
      case .opened:
        opened(place, now, &context)
      case .settingsChanged:
        break
      case .goAway(_, let code):
        wentAway(place, code, &context)
      case .pingAcknowledged:
        links[place]?.state.pongReceived()
        state.pongReceived(place: place)
      case .closed(let error):
        ended(place, error, now, &context)
        return
      }
    }
  }

  /// What time asks for: pings, deadlines, the end of what drained.
  private func watch(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    while let connection = links[place]?.connection {
      let inFlight = context.requests.count(of: lists[place])
      let oldest = context.requests.oldestSentAt(of: lists[place])
      let action = links[place]?.state.turn(now: now.monotonic, inFlight: inFlight, oldestSentAt: oldest) ?? .none
      switch action {
      case .none:
        return
      case .ping:
        context.counters.pings += 1
        connection.ping()
      case .timeOut(let sentUntil):
        timeOut(place, connection, sentUntil: sentUntil, &context)
      case .close:
        connection.shutdown()
      case .abort(let reason):
        let why = reason == .silent ? "no answer to a ping" : "it did not open in time"
        context.say(notice(.warning, "connection to \(host.endpoint) is replaced: \(why)"))
        leave(place)
        connection.abort()
        takeEvents(place, now, &context)
      }
    }
  }

  private func timeOut(
    _ place: Int, _ connection: HTTP2ClientConnection, sentUntil: Instant, _ context: inout APNsContext
  ) {
    while let name = context.requests.oldest(of: lists[place]),
      let sentAt = context.requests.oldestSentAt(of: lists[place]), sentAt <= sentUntil
    {
      unanswered(name, .timedOut, place, &context)
      // What is told of the stream's end finds no request any more, whatever its job does by then.
      _ = connection.cancel(name)
      if links[place]?.state.timedOut(sentAt: sentAt) == true {
        leave(place)
        context.say(notice(.warning, "connection to \(host.endpoint) is replaced: it answers no requests"))
      }
    }
  }

  /// A connection on which nothing is and nothing came for a while gives its buffers back: a worker has one for each credential.
  private func rest(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard let link = links[place] else { return }
    let lastReceived = link.connection.lastReceived
    guard link.restsSince != lastReceived, context.requests.count(of: lists[place]) == 0,
      now.monotonic.milliseconds(since: lastReceived) >= APNsPool.restMilliseconds
    else { return }
    link.restsSince = lastReceived
    link.connection.releaseMemory()
  }

  private func update(_ place: Int) {
    guard let connection = links[place]?.connection else { return }
    if connection.shouldRotate {
      links[place]?.state.drain(.rotated)
      leave(place)
    }
    // A connection that was asked for a sign of life gets no request before it gave one: nothing more is lost in it.
    let takesRequests = !connection.isGoingAway && connection.unansweredPingSince == nil
    state.update(
      place: place, inFlight: connection.streamsInFlight, streamLimit: takesRequests ? connection.streamLimit : 0,
      window: connection.sendWindow)
  }

  // MARK: - Events

  private func answered(
    _ answer: PushAnswer, _ request: RequestTable.Request, _ place: Int, _ now: Now, _ context: inout APNsContext
  ) {
    context.counters.requestDuration.record(
      nanoseconds: now.monotonic.nanoseconds &- request.sentAt.nanoseconds)
    if answer.status == 200 {
      context.counters.accepted += 1
      if kind == .badTokens { context.badTokens.remove(request.targetHash) }
      context.slowed.accepted(request.targetHash)
    } else {
      context.counters.refused(answer.status, answer.reason)
      if kind != .broadcast, APNsPool.isBadToken(answer) { context.badTokens.insert(request.targetHash) }
      if answer.reason == .tooManyRequests { context.slowed.refused(request.targetHash, now: now.monotonic) }
      if answer.reason == .channelNotRegistered { context.goneChannels.append(request.targetHash) }
    }
    if state.answered(place: place, sentAt: request.sentAt, now: now.monotonic) { recovered(&context) }
    lastError = nil
    enqueue(answer, request, place, &context)
  }

  /// The first answer of a connection, and every refusal, says what time it is at APNs.
  private func lookAtDate(_ connection: HTTP2ClientConnection, _ now: Now, _ context: inout APNsContext) {
    guard let date = connection.withResponseHeader(.date, { HTTPDate.unixSeconds($0) }) else { return }
    switch context.clock.heard(unixSeconds: date, now: now) {
    case .none: break
    case .differs(let seconds):
      let text = seconds > 0 ? "\(seconds) s behind" : "\(-seconds) s ahead of"
      context.say(
        notice(.error, "this machine's clock is \(text) APNs': provider tokens will be refused; check the clock (NTP)"))
    case .agrees: context.say(notice(.information, "this machine's clock agrees with APNs' again"))
    }
  }

  /// Whether the answer is about the device token itself.
  private static func isBadToken(_ answer: PushAnswer) -> Bool {
    if answer.status == 410 { return true }
    return answer.reason == .badDeviceToken || answer.reason == .deviceTokenNotForTopic
  }

  /// A request ended without an answer.
  private func unanswered(_ name: Ticket, _ kind: PushAnswer.Kind, _ place: Int, _ context: inout APNsContext) {
    guard let request = context.requests.remove(name) else { return }
    switch kind {
    case .response: preconditionFailure("a response is an answer")
    case .notProcessed: context.counters.notProcessed += 1
    case .lost: context.counters.lost += 1
    case .timedOut: context.counters.timedOut += 1
    }
    enqueue(PushAnswer(ticket: request.send, kind: kind), request, place, &context)
  }

  private func enqueue(
    _ answer: PushAnswer, _ request: RequestTable.Request, _ place: Int, _ context: inout APNsContext
  ) {
    context.answers.append(
      APNsContext.Answered(
        answer: answer, pool: index, place: place, connectionSerial: links[place]?.serial ?? 0,
        tokenSerial: request.tokenSerial, pauseKey: request.pauseKey))
  }

  private func opened(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    links[place]?.state.opened(now: now.monotonic)
    state.opened(place: place)
    context.counters.connectionsOpened += 1
    if let peer = links[place]?.connection.peerDescription {
      context.say(notice(.information, "connected to \(peer)"))
    }
  }

  private func wentAway(_ place: Int, _ code: HTTP2ErrorCode, _ context: inout APNsContext) {
    let reason = links[place]?.connection.withGoAwayReason { APNsResponseBody($0).reason } ?? nil
    context.counters.wentAway(reason)
    links[place]?.state.drain(.goAway)
    leave(place)
    context.say(
      notice(
        code == .noError ? .information : .warning,
        "\(host.endpoint) closes a connection: \(reason?.name ?? "\(code)")"))
  }

  private func ended(_ place: Int, _ error: HTTP2Error?, _ now: Now, _ context: inout APNsContext) {
    guard let link = links[place] else { return }
    links[place] = nil
    link.state.closed()
    guard case .closed(let reason) = link.state.phase else { preconditionFailure("closed is final") }
    context.counters.ended(reason)
    if case .transport(let failure) = error, failure.kind == .tls { context.counters.tlsFailures += 1 }
    let didFail = !link.state.hasAnswered && APNsPool.isFailure(reason)
    state.ended(place: place, didFail: didFail, now: now.monotonic, random: context.random.next())
    guard didFail else { return }
    context.counters.connectionsFailed += 1
    failed(error?.description ?? "closed before it answered anything", now, &context)
  }

  /// Whether a connection that ended so, without an answer before, says that the next one should wait.
  private static func isFailure(_ reason: ConnectionState.EndReason) -> Bool {
    switch reason {
    case .lost, .notOpened, .silent, .goAway, .stuck: true
    case .advised, .rotated, .unneeded, .retired: false
    }
  }

  private func failed(_ text: String, _ now: Now, _ context: inout APNsContext) {
    lastError = text
    let isNews = saidErrors.count < APNsPool.saidErrorsMaximum && saidErrors.insert(text).inserted
    if state.breaker == .open, !isSaidBroken {
      isSaidBroken = true
      context.say(
        notice(
          .error,
          "cannot connect to \(host.endpoint), \(state.failures) times in a row: \(text); it is tried every 2 s at most"
        ))
    } else if isNews {
      let wait = state.backoffMilliseconds(now: now.monotonic)
      context.say(notice(.warning, "cannot connect to \(host.endpoint): \(text); again in \(wait) ms"))
    }
  }

  private func recovered(_ context: inout APNsContext) {
    isSaidBroken = false
    saidErrors = []
    context.say(notice(.information, "\(host.endpoint) answers again"))
  }

  // MARK: - Actions

  private func open(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    context.lastConnectionSerial &+= 1
    var timing = context.configuration.timing
    timing.requestMilliseconds = context.configuration.requestTimeoutMilliseconds
    links[place] = Link(
      connection: HTTP2ClientConnection.connect(
        loop: context.loop, to: host.endpoint, tls: tls, options: context.configuration.connectOptions,
        settings: HTTP2ClientSettings(maximumStreams: context.configuration.streamsMaximum)),
      state: ConnectionState(timing: timing, now: now.monotonic), serial: context.lastConnectionSerial)
  }

  /// Others answer and this connection does not.
  private func ask(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard links[place]?.state.pingIfSilent(now: now.monotonic) == true else { return }
    context.counters.pings += 1
    links[place]?.connection.ping()
  }

  /// The pool chooses this connection no more.
  private func leave(_ place: Int) {
    guard links[place]?.hasLeft == false else { return }
    links[place]?.hasLeft = true
    state.leaves(place: place)
  }

  /// An answer advised to take no more requests on the connection that it came over.
  func advisedToClose(place: Int, serial: UInt32) {
    guard links[place]?.serial == serial else { return }
    links[place]?.state.drain(.advised)
    leave(place)
  }

  /// An answer advised to send less over its connection.
  func advisedFewerStreams(place: Int, serial: UInt32, now: Now) {
    guard links[place]?.serial == serial else { return }
    state.fewerStreams(place: place, now: now.monotonic)
  }

  /// Opens no more connections and lets those that are there finish.
  func close() {
    state.close()
    for place in links.indices where links[place] != nil {
      links[place]?.state.drain(.retired)
      leave(place)
    }
  }

  /// Ends every connection at once: what is on them may or may not be processed.
  func revoke() {
    close()
    for place in links.indices { links[place]?.connection.abort() }
  }

  /// Gives back what it holds of the lane's tables, once it is empty.
  func recycle(_ context: inout APNsContext) {
    for list in lists { context.requests.recycle(list) }
  }

  var hasRoom: Bool { state.hasRoom }

  /// Requests that find no room now will not find it soon either.
  var isStalled: Bool { state.isStalled }

  /// Every connection has ended.
  var isEmpty: Bool { links.allSatisfy { $0 == nil } }

  // MARK: - Told

  func notice(_ severity: APNsNotice.Severity, _ text: String) -> APNsNotice {
    APNsNotice(severity: severity, credential: credential, environment: environment, text: text)
  }

  func snapshot(pauses: PauseTable, now: Now) -> APNsPoolSnapshot {
    let open = links.compactMap { $0 }.filter { $0.state.isOpen }
    return APNsPoolSnapshot(
      credential: credential, environment: environment, kind: kind, opening: state.isOpening ? 1 : 0,
      ready: state.readyCount - state.silentCount, silent: state.silentCount, draining: state.leavingCount,
      streamsInFlight: state.inFlight,
      streamLimit: open.reduce(0) { $0 + $1.connection.streamLimit },
      sendWindow: open.reduce(0) { $0 + $1.connection.sendWindow }, failures: state.failures,
      backoffMilliseconds: state.backoffMilliseconds(now: now.monotonic),
      isPaused: pauses.pausedCounts.everything, pausedTopics: pauses.pausedCounts.topics,
      stallCause: pauses.pausedCounts.everything ? .paused : state.stall(now: now.monotonic).map(APNsStallCause.init),
      peers: open.map { $0.connection.peerDescription }, lastError: lastError)
  }
}
