package import PushCore

/// One HTTP/2 connection to APNs or to its channel management: what `ConnectionState` decides about it is done.
///
/// Once a turn: `nextEvent` until it is nil, then `nextDue` until it is nil. Requests are its owner's. Not Sendable: it belongs to the
/// thread of its loop.
package struct APNsConnection {
  /// What time asked for, beside what was done here.
  package enum Due {
    /// A ping was sent.
    case pinged
    /// Requests that were sent until then have waited too long for an answer.
    case timedOut(sentUntil: Instant)
    /// The connection was ended at once; `nextEvent` has what was on it, and then `closed`.
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

  /// Not while it is asked for a sign of life: nothing more is lost in it then.
  package var takesRequests: Bool { !http.isGoingAway && http.unansweredPingSince == nil }

  /// The next of what happened; nil once everything of this turn is reported.
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

  /// Does what time asks for, and returns what its owner has a part in; nil: nothing more is due.
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
      // The goodbye still has to be written and answered; nothing is on it any more.
      http.shutdown()
      return nil
    case .abort(let reason):
      http.abort()
      return .aborted(reason)
    }
  }

  /// A request was sent. true: it was the last one, the connection has had its share.
  package mutating func sent() -> Bool { state.sent() }

  /// A request is given up that was sent at `sentAt`. true: nor was any other one answered, so the connection takes no more.
  package mutating func timedOut(sentAt: Instant) -> Bool { state.timedOut(sentAt: sentAt) }

  /// No more requests on it; it ends when the last one has its answer.
  package mutating func drain(_ reason: ConnectionState.EndReason) { state.drain(reason) }

  /// Asks for a sign of life where none came for a while. false: it needs none.
  package mutating func pingIfSilent(now: Instant) -> Bool {
    guard state.pingIfSilent(now: now) else { return false }
    http.ping()
    return true
  }
}
