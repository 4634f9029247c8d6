import Logging
import PushCore
import PushCredentials
import PushIO

/// One pool of a lane: the connections of one (credential, environment, kind). It carries out the decisions of `PoolState` and
/// `ConnectionState`.
final class APNsPool {
  /// One connection in its place. An object, so that reading one field copies no other.
  private final class Member {
    var connection: APNsConnection
    let serial: UInt32
    var hasSent = false
    /// Answers whose date was read.
    var datesRead = 0
    /// GOAWAY or an answer's advice: the pool no longer chooses it.
    var hasLeft = false
    /// When it last received bytes, if its buffers were freed since.
    var restsSince: Instant?

    init(connection: APNsConnection, serial: UInt32) {
      self.connection = connection
      self.serial = serial
    }

    var http: HTTP2ClientConnection { connection.http }
  }

  let index: Int
  let credential: String
  let environment: APNsEnvironment
  let kind: APNsPoolKind
  private let host: APNsHost
  private let tls: TLSContext?
  private(set) var state: PoolState
  private var members: [Member?]
  /// The list of requests of each place.
  private let lists: [UInt32]
  private let writer: APNsSharedWriter
  private var trouble = APNsTrouble()
  /// `apns-expiration` of the next broadcast.
  var broadcastExpiration: Int64 = 0
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
    members = Array(repeating: nil, count: state.placeCount)
    lists = members.map { _ in context.requests.makeList() }
    writer = context.writer(for: host.authority)
  }

  /// Sends a request; false: no connection has room now.
  func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, ticket: Ticket, token: ProviderTokens.Current?,
    transactionalInFlight: Int?, pauseKey: PauseKey, targetHash: UInt64, now: Now, context: inout APNsContext
  ) -> Bool {
    let byteCount = Int(job.payload.count)
    guard let place = state.take(byteCount: byteCount, transactionalInFlight: transactionalInFlight, now: now.monotonic)
    else { return false }
    let request = context.requests.insert(
      RequestTable.Request(
        send: ticket, sentAt: now.monotonic, list: lists[place], tokenSerial: token?.serial ?? 0,
        pauseKey: pauseKey, targetHash: targetHash))
    guard isSubmitted(job, target, apnsID, request, token, at: place) else {
      // The connection has less room than it reported: it gets nothing more in this turn.
      _ = context.requests.remove(request)
      state.giveBack(place: place, byteCount: byteCount)
      if let http = members[place]?.http {
        state.update(place: place, inFlight: http.streamsInFlight, streamLimit: 0, window: 0)
      }
      return false
    }
    context.counters.requests += 1
    if members[place]?.connection.sent() == true { leave(place) }
    return true
  }

  private func isSubmitted(
    _ job: borrowing PushJob, _ target: Int, _ apnsID: UUIDValue, _ request: Ticket,
    _ token: ProviderTokens.Current?, at place: Int
  ) -> Bool {
    guard let member = members[place] else { preconditionFailure("the pool chose an empty place") }
    let isFirst = !member.hasSent
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
      member.http.submit(writer.requests.headers, body: job.bytes, bodyRange: job.payload.range, ticket: request)
    else { return false }
    if isFirst { member.hasSent = true }
    return true
  }

  // MARK: - Once a turn

  /// Takes the events of every connection, then does what is due.
  func maintain(now: Now, context: inout APNsContext) {
    for place in members.indices where members[place] != nil {
      takeEvents(place, now, &context)
      watch(place, now, &context)
      update(place, now, &context)
      rest(place, now, &context)
    }
    while true {
      switch state.turn(now: now.monotonic) {
      case .none: return
      case .open(let place): open(place, now, &context)
      case .drain(let place): members[place]?.connection.drain(.unneeded)
      case .ping(let place): ask(place, now, &context)
      }
    }
  }

  private func takeEvents(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard let member = members[place] else { return }
    while let event = member.connection.nextEvent(now: now.monotonic) {
      switch event {
      case .response(let name, let status):
        if status != 200 || member.datesRead < WallClockState.apnsDatesMinimum {
          member.datesRead += 1
          readDate(member.http, isRefusal: status == 403, &context)
        }
        guard let request = context.requests.remove(name) else { break }
        answered(PushAnswer(response: request.send, status: status, from: member.http), request, place, now, &context)
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
        state.pongReceived(place: place)
      case .closed(let error):
        ended(place, error, now, &context)
        return
      }
    }
  }

  /// What is due: pings, deadlines, the end of drained connections.
  private func watch(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    while let member = members[place] {
      let inFlight = context.requests.count(of: lists[place])
      let oldest = context.requests.oldestSentAt(of: lists[place])
      switch member.connection.nextDue(now: now.monotonic, inFlight: inFlight, oldestSentAt: oldest) {
      case nil:
        return
      case .pinged:
        context.counters.pings += 1
      case .timedOut(let sentUntil):
        timeOut(place, member, sentUntil: sentUntil, &context)
      case .aborted(let reason):
        let why = reason == .silent ? "no answer to a ping" : "it did not open in time"
        context.say(notice(.warning, "connection to \(host.endpoint) is replaced: \(why)"))
        leave(place)
        takeEvents(place, now, &context)
      }
    }
  }

  private func timeOut(_ place: Int, _ member: Member, sentUntil: Instant, _ context: inout APNsContext) {
    while let name = context.requests.oldest(of: lists[place]),
      let sentAt = context.requests.oldestSentAt(of: lists[place]), sentAt <= sentUntil
    {
      unanswered(name, .timedOut, place, &context)
      // The end of this stream is reported after the request was removed, whatever its job does by then.
      _ = member.http.cancel(name)
      if member.connection.timedOut(sentAt: sentAt) {
        leave(place)
        context.say(notice(.warning, "connection to \(host.endpoint) is replaced: it answers no requests"))
      }
    }
  }

  /// A connection without requests and received bytes for a while frees its buffers: a worker has one for each credential.
  private func rest(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard let member = members[place] else { return }
    let lastReceived = member.http.lastReceived
    guard member.restsSince != lastReceived, context.requests.count(of: lists[place]) == 0,
      now.monotonic.milliseconds(since: lastReceived) >= APNsPool.restMilliseconds
    else { return }
    member.restsSince = lastReceived
    member.http.releaseMemory()
  }

  private func update(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard let member = members[place] else { return }
    let http = member.http
    if member.connection.isShut(now: now.monotonic) {
      leave(place)
      context.say(notice(.warning, "connection to \(host.endpoint) is replaced: it allows no requests"))
    }
    if http.shouldRotate {
      member.connection.drain(.rotated)
      leave(place)
    }
    state.update(
      place: place, inFlight: http.streamsInFlight, streamLimit: member.connection.takesRequests ? http.streamLimit : 0,
      window: http.sendWindow)
  }

  // MARK: - Events

  private func answered(
    _ answer: PushAnswer, _ request: RequestTable.Request, _ place: Int, _ now: Now, _ context: inout APNsContext
  ) {
    context.counters.requestDuration.record(
      nanoseconds: now.monotonic.nanoseconds &- request.sentAt.nanoseconds)
    if answer.status == 200 {
      context.counters.accepted += 1
      if kind == .badTokens { context.badTokens.remove(request.targetHash ^ request.pauseKey.topicBits) }
      context.slowed.accepted(request.targetHash)
    } else {
      context.counters.refused(answer.status, answer.reason)
      if kind != .broadcast, APNsPool.isBadToken(answer) {
        context.badTokens.insert(request.targetHash ^ request.pauseKey.topicBits)
      }
      if answer.reason == .tooManyRequests { context.slowed.refused(request.targetHash, now: now.monotonic) }
      if answer.reason == .channelNotRegistered { context.goneChannels.append(request.targetHash) }
    }
    if state.answered(place: place, sentAt: request.sentAt, now: now.monotonic) {
      trouble.recovered()
      context.say(notice(.info, "\(host.endpoint) answers again"))
    }
    trouble.answered()
    enqueue(answer, request, place, &context)
  }

  /// The first answers of a connection, and every refusal, give APNs' time.
  private func readDate(_ connection: HTTP2ClientConnection, isRefusal: Bool, _ context: inout APNsContext) {
    guard let date = connection.withResponseHeader(.date, { HTTPDate.unixSeconds($0) }) else { return }
    let ahead = context.loop.heard(isRefusal ? .apnsRefusal : .apns, unixMilliseconds: date * 1_000)
    switch context.clock.heard(skewMilliseconds: ahead) {
    case .none: break
    case .differs(let seconds):
      let text = seconds > 0 ? "\(seconds) s behind" : "\(-seconds) s ahead of"
      let isCorrected = (date - context.loop.now.unixSeconds).magnitude <= UInt64(ClockState.toleranceSeconds)
      let consequence = isCorrected ? "Herald goes by Redis' clock" : "provider tokens go by APNs' clock"
      context.say(notice(.error, "this machine's clock is \(text) APNs': \(consequence); check the clocks (NTP)"))
    case .agrees: context.say(notice(.info, "this machine's clock agrees with APNs' again"))
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
        answer: answer, pool: index, place: place, connectionSerial: members[place]?.serial ?? 0,
        tokenSerial: request.tokenSerial, pauseKey: request.pauseKey))
  }

  private func opened(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    state.opened(place: place)
    context.counters.connectionsOpened += 1
    if let peer = members[place]?.http.peerDescription {
      context.say(notice(.info, "connected to \(peer)"))
    }
  }

  private func wentAway(_ place: Int, _ code: HTTP2ErrorCode, _ context: inout APNsContext) {
    let reason = members[place]?.http.withGoAwayReason { APNsResponseBody($0).reason } ?? nil
    context.counters.wentAway(reason)
    leave(place)
    context.say(
      notice(
        code == .noError ? .info : .warning,
        "\(host.endpoint) closes a connection: \(reason?.name ?? "\(code)")"))
  }

  private func ended(_ place: Int, _ error: HTTP2Error?, _ now: Now, _ context: inout APNsContext) {
    guard let member = members[place] else { return }
    members[place] = nil
    guard case .closed(let reason) = member.connection.state.phase else { preconditionFailure("closed is final") }
    context.counters.ended(reason)
    if case .transport(let failure) = error, failure.kind == .tls { context.counters.tlsFailures += 1 }
    let didFail = !member.connection.state.hasAnswered && APNsPool.isFailure(reason)
    state.ended(place: place, didFail: didFail, now: now.monotonic, random: context.random.next())
    guard didFail else { return }
    context.counters.connectionsFailed += 1
    let text = error?.description ?? "closed before it answered anything"
    if let remark = trouble.failed(text, to: "\(host.endpoint)", state, now: now.monotonic) {
      context.say(notice(remark.level, remark.text))
    }
  }

  /// Whether a connection that ended for this reason, without an answer, means that the next one should wait.
  private static func isFailure(_ reason: ConnectionState.EndReason) -> Bool {
    switch reason {
    case .lost, .notOpened, .silent, .goAway, .stuck: true
    case .advised, .rotated, .unneeded, .retired: false
    }
  }

  // MARK: - Actions

  private func open(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    context.lastConnectionSerial &+= 1
    var timing = context.configuration.timing
    timing.requestMilliseconds = context.configuration.requestTimeoutMilliseconds
    members[place] = Member(
      connection: APNsConnection(
        loop: context.loop, to: host.endpoint, tls: tls, options: context.configuration.connectOptions,
        settings: HTTP2ClientSettings(maximumStreams: context.configuration.streamsMaximum), timing: timing),
      serial: context.lastConnectionSerial)
  }

  /// Other connections answer and this one does not: pings it.
  private func ask(_ place: Int, _ now: Now, _ context: inout APNsContext) {
    guard members[place]?.connection.pingIfSilent(now: now.monotonic) == true else { return }
    context.counters.pings += 1
  }

  /// The pool no longer chooses this connection.
  private func leave(_ place: Int) {
    guard members[place]?.hasLeft == false else { return }
    members[place]?.hasLeft = true
    state.leaves(place: place)
  }

  /// An answer advised to send no more requests over its connection.
  func advisedToClose(place: Int, serial: UInt32) {
    guard members[place]?.serial == serial else { return }
    members[place]?.connection.drain(.advised)
    leave(place)
  }

  /// An answer advised to send less over its connection.
  func advisedFewerStreams(place: Int, serial: UInt32, now: Now) {
    guard members[place]?.serial == serial else { return }
    state.fewerStreams(place: place, now: now.monotonic)
  }

  /// Opens no more connections and lets existing ones finish.
  func close() {
    state.close()
    for place in members.indices where members[place] != nil {
      members[place]?.connection.drain(.retired)
      leave(place)
    }
  }

  /// Ends every connection at once: their requests may or may not be processed.
  func revoke() {
    close()
    for place in members.indices { members[place]?.http.abort() }
  }

  /// Returns its share of the lane's tables, once it is empty.
  func recycle(_ context: inout APNsContext) {
    for list in lists { context.requests.recycle(list) }
  }

  var room: Int { state.room }

  /// Requests without room now will not get room soon.
  var isStalled: Bool { state.isStalled }

  /// Every connection has ended.
  var isEmpty: Bool { members.allSatisfy { $0 == nil } }

  // MARK: - Reported

  func notice(_ level: Logger.Level, _ text: String) -> APNsNotice {
    APNsNotice(level: level, credential: credential, environment: environment, text: text)
  }

  func snapshot(pauses: PauseTable, now: Now) -> APNsPoolSnapshot {
    let open = members.compactMap { $0 }.filter { $0.connection.state.isOpen }
    return APNsPoolSnapshot(
      credential: credential, environment: environment, kind: kind, opening: state.isOpening ? 1 : 0,
      ready: state.readyCount - state.silentCount, silent: state.silentCount, draining: state.leavingCount,
      streamsInFlight: state.inFlight,
      streamLimit: open.reduce(0) { $0 + $1.http.streamLimit },
      sendWindow: open.reduce(0) { $0 + $1.http.sendWindow }, failures: state.failures,
      backoffMilliseconds: state.backoffMilliseconds(now: now.monotonic),
      isPaused: pauses.pausedCounts.everything, pausedTopics: pauses.pausedCounts.topics,
      stallCause: pauses.pausedCounts.everything ? .paused : state.stall(now: now.monotonic).map(APNsStallCause.init),
      peers: open.map { $0.http.peerDescription }, lastError: trouble.lastError)
  }
}
