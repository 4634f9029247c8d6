/// One connection to APNs from opening to closing: when to ping it, give up on it, drain it and close it.
///
/// A connection can be stuck in three ways, and each has its check: the peer is gone without a word (silence, then a ping without a pong),
/// it answers pings but no requests (a request timed out and nothing was answered since it was sent), or it does not open (deadline). The
/// owner knows the requests in flight and their times, and passes them in.
package struct ConnectionState: Sendable {
  /// Time limits, milliseconds.
  package struct Timing: Sendable {
    /// From the first attempt until the connection takes requests.
    package var openMilliseconds: Int64 = 15_000
    /// From a request to its answer.
    package var requestMilliseconds: Int64 = 10_000
    /// Ping after this long without a byte from the peer while a request waits.
    package var silenceMilliseconds: Int64 = 5_000
    /// Ping after this long without a byte and with nothing in flight, so that middleboxes keep the connection.
    package var idleMilliseconds: Int64 = 60_000
    /// From a ping to its pong.
    package var pongMilliseconds: Int64 = 4_000

    package init() {}

    /// Shortens the silence limit so that a silent connection is replaced before its requests time out. They can then be sent again at
    /// once.
    package mutating func watch(requestTimeoutMilliseconds: Int64) {
      requestMilliseconds = requestTimeoutMilliseconds
      silenceMilliseconds = min(5_000, requestTimeoutMilliseconds / 2)
      pongMilliseconds = min(4_000, requestTimeoutMilliseconds * 2 / 5)
    }
  }

  /// Why a connection takes no more requests.
  package enum EndReason: UInt8, CaseIterable, Sendable {
    /// The peer sent GOAWAY.
    case goAway
    /// An answer advised it: shutdown, an expired token bound to the connection, a refused certificate.
    case advised
    /// It has used as many streams as one connection may.
    case rotated
    /// It answers pings but no requests, or allows none.
    case stuck
    /// No pong.
    case silent
    /// It did not open in time.
    case notOpened
    /// The load needs fewer connections.
    case unneeded
    /// Its credential is gone, or the worker stops.
    case retired
    /// The transport failed or was closed.
    case lost

    package var name: StaticString {
      switch self {
      case .goAway: "goaway"
      case .advised: "advised"
      case .rotated: "rotated"
      case .stuck: "stuck"
      case .silent: "silent"
      case .notOpened: "not_opened"
      case .unneeded: "unneeded"
      case .retired: "retired"
      case .lost: "lost"
      }
    }
  }

  package enum Phase: Equatable, Sendable {
    /// TCP, TLS and HTTP/2 are being set up. Becomes `open`, or `closed`.
    case opening(since: Instant)
    /// Takes requests. Becomes `draining`, or `closed`.
    case open
    /// Takes no new requests; those in flight finish or reach their deadline. Becomes `closed`.
    case draining(EndReason)
    /// Nothing is in flight and nothing more will be sent. Final.
    case closed(EndReason)
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Send PING; `pongReceived` reports its answer.
    case ping
    /// Cancel every request that was sent at or before this time.
    case timeOut(sentUntil: Instant)
    /// Everything is answered: close in order.
    case close
    /// The connection is broken: drop it. Requests in flight may or may not have been processed.
    case abort(EndReason)
  }

  /// Stream ids end at 2^31, and only every second one is ours. A connection is replaced at half of them.
  package static let streamsMaximum: UInt32 = 1 << 29

  private let timing: Timing
  package private(set) var phase: Phase
  private var lastReceivedAt: Instant
  private var lastAnsweredAt: Instant?
  /// A ping is in flight; if its pong does not come by then, the peer is gone.
  private var pongDueAt: Instant?
  private var streamsOpened: UInt32 = 0
  /// Since when the peer allows no requests.
  private var shutSince: Instant?

  package init(timing: Timing, now: Instant) {
    self.timing = timing
    phase = .opening(since: now)
    lastReceivedAt = now
  }

  package var isOpen: Bool { phase == .open }

  /// Whether it ever answered a request. If it never did, it proves nothing about the host.
  package var hasAnswered: Bool { lastAnsweredAt != nil }

  /// Requests can be sent.
  package mutating func opened(now: Instant) {
    switch phase {
    case .opening:
      phase = .open
      lastReceivedAt = now
    case .draining:
      // It was given up while it opened; `turn` closes it.
      lastReceivedAt = now
    case .open, .closed:
      preconditionFailure("a connection opens once")
    }
  }

  /// Bytes of any kind came from the peer.
  package mutating func received(now: Instant) {
    lastReceivedAt = now
  }

  package mutating func answered(now: Instant) {
    lastAnsweredAt = now
  }

  package mutating func pongReceived() {
    pongDueAt = nil
  }

  /// Other connections answer and this one does not. true: send PING. This ping is early, so its pong may take as long as silence alone
  /// would have allowed: nothing is sent a second time earlier than without it.
  package mutating func pingIfSilent(now: Instant) -> Bool {
    guard phase == .open, pongDueAt == nil else { return false }
    pongDueAt = max(
      now.adding(milliseconds: timing.pongMilliseconds),
      lastReceivedAt.adding(milliseconds: timing.silenceMilliseconds + timing.pongMilliseconds))
    return true
  }

  /// A request was sent. true: it was the last one that this connection takes.
  package mutating func sent() -> Bool {
    streamsOpened += 1
    guard streamsOpened >= ConnectionState.streamsMaximum else { return false }
    drain(.rotated)
    return true
  }

  /// A request sent at `sentAt` got no answer in time. true: no other request got one either, so the connection is stuck.
  package mutating func timedOut(sentAt: Instant) -> Bool {
    guard phase == .open else { return false }
    if let last = lastAnsweredAt, last >= sentAt { return false }
    drain(.stuck)
    return true
  }

  /// Call once a turn. true: the peer has allowed no requests for as long as a connection may take to open, so this one takes no more.
  package mutating func isShut(streamLimit: Int, now: Instant) -> Bool {
    guard phase == .open, streamLimit == 0 else {
      shutSince = nil
      return false
    }
    let since = shutSince ?? now
    shutSince = since
    guard now.milliseconds(since: since) >= timing.openMilliseconds else { return false }
    drain(.stuck)
    return true
  }

  /// Take no more requests.
  package mutating func drain(_ reason: EndReason) {
    switch phase {
    case .opening, .open: phase = .draining(reason)
    case .draining, .closed: break
    }
  }

  /// The transport ended, for any reason.
  package mutating func closed() {
    switch phase {
    case .opening(_), .open: phase = .closed(.lost)
    case .draining(let reason): phase = .closed(reason)
    case .closed: break
    }
  }

  /// Call once a turn, after received bytes were handled. Call again after each action until it returns `none`.
  /// - Parameters:
  ///   - inFlight: requests without an answer.
  ///   - oldestSentAt: when the oldest of them was sent.
  package mutating func turn(now: Instant, inFlight: Int, oldestSentAt: Instant?) -> Action {
    switch phase {
    case .closed:
      return .none
    case .opening(let since):
      guard now.milliseconds(since: since) >= timing.openMilliseconds else { return .none }
      phase = .closed(.notOpened)
      return .abort(.notOpened)
    case .draining(let reason):
      if inFlight == 0 {
        phase = .closed(reason)
        return .close
      }
      return watch(now: now, oldestSentAt: oldestSentAt)
    case .open:
      return watch(now: now, oldestSentAt: oldestSentAt)
    }
  }

  private mutating func watch(now: Instant, oldestSentAt: Instant?) -> Action {
    if let oldest = oldestSentAt, now.milliseconds(since: oldest) >= timing.requestMilliseconds {
      return .timeOut(sentUntil: now.adding(milliseconds: -timing.requestMilliseconds))
    }
    if let due = pongDueAt {
      guard now >= due else { return .none }
      phase = .closed(.silent)
      return .abort(.silent)
    }
    let silence = now.milliseconds(since: lastReceivedAt)
    let isSilent: Bool
    if let oldest = oldestSentAt {
      isSilent =
        silence >= timing.silenceMilliseconds && now.milliseconds(since: oldest) >= timing.silenceMilliseconds
    } else {
      isSilent = silence >= timing.idleMilliseconds
    }
    guard isSilent else { return .none }
    pongDueAt = now.adding(milliseconds: timing.pongMilliseconds)
    return .ping
  }
}
