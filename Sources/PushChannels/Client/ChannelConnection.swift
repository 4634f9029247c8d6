import PushCore
import PushIO

/// One HTTP/2 connection to a management host, and the calls on it.
final class ChannelConnection {
  private struct Sent {
    let call: ChannelCall
    let at: Instant
    /// Of the provider token that it carried; 0 for none.
    let tokenSerial: UInt32
  }

  /// How one sending of a call ended.
  struct Ending {
    let call: ChannelCall
    let event: ChannelCallState.Event
    let tokenSerial: UInt32
    /// What the answer says, read for the case that it is one of success.
    let answer: Result<ChannelAnswer, ChannelAnswer.Fault>?
  }

  private let loop: EventLoop
  private var connection: APNsConnection
  private let host: APNsHost
  private let requestMilliseconds: Int64
  private var sent: [Ticket: Sent] = [:]
  private var lastIndex: UInt32 = 0
  private var headers = HTTP2HeaderList()
  /// When the last call ended; since when it is idle.
  private(set) var quietSince: Instant
  private(set) var isClosed = false
  /// Why it ended; nil while it goes on, or where it ended in order.
  private(set) var failure: String?
  private(set) var hasOpened = false
  /// Whether it ever answered: one that did not is no proof that the host wants us.
  var hasAnswered: Bool { connection.state.hasAnswered }
  private var http: HTTP2ClientConnection { connection.http }

  init(loop: EventLoop, host: APNsHost, tls: TLSContext?, configuration: ChannelClientConfiguration) {
    self.loop = loop
    self.host = host
    requestMilliseconds = configuration.requestTimeoutMilliseconds
    var timing = configuration.timing
    timing.requestMilliseconds = configuration.requestTimeoutMilliseconds
    connection = APNsConnection(
      loop: loop, to: host.endpoint, tls: tls, options: configuration.connectOptions,
      settings: HTTP2ClientSettings(
        maximumStreams: configuration.streamsMaximum, responseBodyLimit: ChannelAnswer.bodyBytesMaximum),
      timing: timing)
    quietSince = loop.now.monotonic
  }

  /// A request may be sent now.
  var hasRoom: Bool { connection.state.isOpen && connection.takesRequests && http.availableStreams > 0 }

  /// It takes no more calls, now or later.
  var isLeaving: Bool {
    switch connection.state.phase {
    case .opening, .open: http.isGoingAway
    case .draining, .closed: true
    }
  }

  var callCount: Int { sent.count }

  /// Sends a call; false: there is no room after all.
  func send(_ call: ChannelCall, authorization: [UInt8], tokenSerial: UInt32, now: Instant) -> Bool {
    lastIndex &+= 1
    let ticket = Ticket(index: lastIndex, generation: 0)
    let body = call.request.body
    write(call, authorization)
    guard http.submit(headers, body: body, bodyRange: body.indices, ticket: ticket) else { return false }
    sent[ticket] = Sent(call: call, at: now, tokenSerial: tokenSerial)
    if connection.sent() || http.shouldRotate { drain(.rotated) }
    return true
  }

  private func write(_ call: ChannelCall, _ authorization: [UInt8]) {
    headers.removeAll()
    headers.append(.method, call.request.method)
    headers.append(.scheme, "https")
    headers.append(.authority, host.authority.utf8.span)
    headers.append(.path, call.request.path.utf8.span)
    if !authorization.isEmpty { headers.append(.authorization, authorization.span) }
    if let id = call.request.channelID { headers.append(.apnsChannelID, id.text.utf8.span, isIndexed: false) }
    headers.append(.apnsRequestID, call.requestID.text.utf8.span, isIndexed: false)
  }

  func drain(_ reason: ConnectionState.EndReason) {
    connection.drain(reason)
  }

  /// Ends it at once: what is on it is reported as lost, in its next turn.
  func abort(_ reason: String) {
    failure = failure ?? reason
    http.abort()
  }

  /// Once a turn: hands over what ended, then does what time asks for.
  func turn(now: Instant, _ ended: (Ending) -> Void) {
    takeEvents(now, ended)
    if connection.isShut(now: now) { failure = failure ?? "it allows no requests" }
    while !isClosed {
      switch connection.nextDue(now: now, inFlight: sent.count, oldestSentAt: sent.values.map(\.at).min()) {
      case nil:
        return
      case .pinged:
        break
      case .timedOut(let sentUntil):
        timeOut(sentUntil: sentUntil, now, ended)
      case .aborted(let reason):
        failure = reason == .silent ? "it did not answer a ping" : "it did not open in time"
        takeEvents(now, ended)
      }
    }
  }

  private func takeEvents(_ now: Instant, _ ended: (Ending) -> Void) {
    while let event = connection.nextEvent(now: now) {
      switch event {
      case .opened:
        hasOpened = true
      case .settingsChanged, .goAway, .pingAcknowledged:
        break
      case .response(let ticket, let status):
        guard let sent = take(ticket, now) else { continue }
        ended(answered(sent, status))
      case .notProcessed(let ticket):
        guard let sent = take(ticket, now) else { continue }
        ended(Ending(call: sent.call, event: .notProcessed, tokenSerial: sent.tokenSerial, answer: nil))
      case .lost(let ticket, let code):
        guard let sent = take(ticket, now) else { continue }
        let text = "the connection or stream was lost after the request was sent (\(code))"
        ended(Ending(call: sent.call, event: .lost(text: text), tokenSerial: sent.tokenSerial, answer: nil))
      case .closed(let error):
        isClosed = true
        failure = failure ?? error?.description
      }
    }
  }

  private func take(_ ticket: Ticket, _ now: Instant) -> Sent? {
    if sent.count == 1 { quietSince = now }
    return sent.removeValue(forKey: ticket)
  }

  private func answered(_ sent: Sent, _ status: Int) -> Ending {
    let call = sent.call
    let requestID = http.withResponseHeader(.apnsRequestID) { ChannelAnswer.requestID($0) } ?? call.requestID
    let answer = http.withResponseHeader(.apnsChannelID) { channelID in
      http.withResponseBody { body in read(call, channelID, body, requestID) }
    }
    let reason = status < 300 ? nil : http.withResponseBody { APNsResponseBody($0).reason }
    if status >= 300, let date = http.withResponseHeader(.date, { HTTPDate.unixSeconds($0) }) {
      loop.heard(status == 403 ? .apnsRefusal : .apns, unixMilliseconds: date * 1_000)
    }
    return Ending(
      call: call, event: .answered(status: UInt16(clamping: status), reason: reason), tokenSerial: sent.tokenSerial,
      answer: answer)
  }

  private func read(
    _ call: ChannelCall, _ channelID: Span<UInt8>, _ body: Span<UInt8>, _ requestID: UUIDValue
  ) -> Result<ChannelAnswer, ChannelAnswer.Fault> {
    if http.isResponseBodyCut {
      return .failure(ChannelAnswer.Fault("its body is longer than \(ChannelAnswer.bodyBytesMaximum) bytes"))
    }
    do throws(ChannelAnswer.Fault) {
      return .success(
        try ChannelAnswer(to: call.request.operation, channelID: channelID, body: body, requestID: requestID))
    } catch {
      return .failure(error)
    }
  }

  private func timeOut(sentUntil: Instant, _ now: Instant, _ ended: (Ending) -> Void) {
    // As they were sent: who hears of it asks for the next thing in the same order.
    let overdue = sent.filter { $0.value.at <= sentUntil }.sorted { $0.key.index < $1.key.index }
    for (ticket, late) in overdue {
      sent[ticket] = nil
      if connection.timedOut(sentAt: late.at) { failure = "it answers no requests" }
      // What is reported of the stream's end comes too late: nobody has the ticket any more.
      _ = http.cancel(ticket)
      ended(
        Ending(
          call: late.call, event: .timedOut(milliseconds: requestMilliseconds), tokenSerial: late.tokenSerial,
          answer: nil))
    }
    if sent.isEmpty { quietSince = now }
  }
}
