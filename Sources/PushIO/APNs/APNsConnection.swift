package import PushCore

/// One HTTP/2 connection to APNs or its channel management. It carries out the decisions of `ConnectionState`.
///
/// Once a turn, call `nextEvent` until it returns nil, then `nextDue` until it returns nil. Its owner keeps the requests. Not Sendable: it
/// belongs to its loop's thread.
package struct APNsConnection {
  /// A due action in which the owner takes part.
  package enum Due {
    /// A ping was sent.
    case pinged
    /// Requests sent until then have timed out.
    case timedOut(sentUntil: Instant)
    /// The connection was aborted; `nextEvent` reports its requests, and then `closed`.
    case aborted(ConnectionState.EndReason)
  }

  package let http: HTTP2ClientConnection
  package private(set) var state: ConnectionState

  package init(
    loop: EventLoop, to endpoint: Endpoint, tls: TLSContext?, options: ConnectOptions, settings: HTTP2ClientSettings,
    timing: ConnectionState.Timing
  ) {
    http = HTTP2ClientConnection.connect(loop: loop, to: endpoint, tls: tls, options: options, settings: settings)
    state = ConnectionState(timing: timing, now: loop.now.monotonic)
  }

  /// Not while a ping is unanswered, so that no more requests are lost.
  package var takesRequests: Bool { !http.isGoingAway && http.unansweredPingSince == nil }

  /// Call once a turn. true: the peer allows no requests for so long that it takes no more.
  package mutating func isShut(now: Instant) -> Bool { state.isShut(streamLimit: http.streamLimit, now: now) }

  /// The next event; nil once everything of this turn is reported.
  package mutating func nextEvent(now: Instant) -> HTTP2ClientEvent? {
    guard let event = http.nextEvent() else { return nil }
    switch event {
    case .opened: state.opened(now: now)
    case .response: state.answered(now: now)
    case .pingAcknowledged: state.pongReceived()
    case .goAway: state.drain(.goAway)
    case .closed: state.closed()
    case .notProcessed, .lost, .settingsChanged: break
    }
    return event
  }

  /// Carries out what is due, and returns it if the owner takes part; nil: nothing more is due.
  /// - Parameters:
  ///   - inFlight: requests without an answer.
  ///   - oldestSentAt: when the oldest of them was sent.
  package mutating func nextDue(now: Instant, inFlight: Int, oldestSentAt: Instant?) -> Due? {
    state.received(now: http.lastReceived)
    switch state.turn(now: now, inFlight: inFlight, oldestSentAt: oldestSentAt) {
    case .none:
      return nil
    case .ping:
      http.ping()
      return .pinged
    case .timeOut(let sentUntil):
      return .timedOut(sentUntil: sentUntil)
    case .close:
      // GOAWAY must still be written and answered; no request is left.
      http.shutdown()
      return nil
    case .abort(let reason):
      http.abort()
      return .aborted(reason)
    }
  }

  /// A request was sent. true: it was the last one that this connection takes.
  package mutating func sent() -> Bool { state.sent() }

  /// A request sent at `sentAt` timed out. true: no other request was answered either, so the connection takes no more.
  package mutating func timedOut(sentAt: Instant) -> Bool { state.timedOut(sentAt: sentAt) }

  /// Takes no more requests; ends after the last answer.
  package mutating func drain(_ reason: ConnectionState.EndReason) { state.drain(reason) }

  /// Pings if nothing was received for a while. false: no need.
  package mutating func pingIfSilent(now: Instant) -> Bool {
    guard state.pingIfSilent(now: now) else { return false }
    http.ping()
    return true
  }
}
