/// One connection to APNs from its opening to its end: when it is pinged, given up, emptied and closed.
///
/// A connection can be stuck in three ways, and each has its watch: the peer is gone without a word (silence, then a ping
/// without pong), it answers pings but no requests (a request timed out and nothing was answered since it was sent), or
/// it cannot be opened (deadline). What requests are on it, and since when, the owner knows and hands in.
package struct ConnectionState: Sendable {
  /// The limits of time, milliseconds.
  package struct Timing: Sendable {
    /// From the first attempt to a connection that takes requests.
    package var openMilliseconds: Int64 = 15_000
    /// From a request to its answer.
    package var requestMilliseconds: Int64 = 10_000
    /// Without a byte from the peer while a request waits this long: ping.
    package var silenceMilliseconds: Int64 = 5_000
    /// Without a byte from the peer and nothing in flight: ping, so that no middlebox forgets the connection.
    package var idleMilliseconds: Int64 = 60_000
    /// From a ping to its pong.
    package var pongMilliseconds: Int64 = 4_000

    package init() {}

    /// Watches silence so closely that a connection that fell silent is replaced before its requests' time is over: they
    /// are then sent again at once.
    package mutating func watch(requestTimeoutMilliseconds: Int64) {
      requestMilliseconds = requestTimeoutMilliseconds
      silenceMilliseconds = min(5_000, requestTimeoutMilliseconds / 2)
      pongMilliseconds = min(4_000, requestTimeoutMilliseconds * 2 / 5)
    }
  }

  /// Why a connection takes no more requests.
  package enum EndReason: UInt8, CaseIterable, Sendable {
    /// The peer said GOAWAY.
    case goAway
    /// An answer advised it: shutdown, an expired token that the connection is stuck with, a refused certificate.
    case advised
    /// As many streams as one connection should have.
    case rotated
    /// It answers pings but no requests.
    case stuck
    /// No pong.
    case silent
    /// Not open in time.
    case notOpened
    /// More connections than the load needs.
    case unneeded
    /// Its credential is gone, or the worker stops.
    case retired
    /// The transport ended.
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
    /// Takes none; those in flight finish or reach their deadline. Becomes `closed`.
    case draining(EndReason)
    /// Nothing is on it and nothing will come of it. Final.
    case closed(EndReason)
  }

  package enum Action: Equatable, Sendable {
    case none
    /// Send PING; its answer is `pongReceived`.
    case ping
    /// Cancel every request that was sent at or before this time.
    case timeOut(sentUntil: Instant)
    /// Everything is answered: close in order.
    case close
    /// Nothing good will come of it: drop it. What is in flight may or may not have been processed.
    case abort(EndReason)
  }

  /// Stream ids end at 2^31; a connection is replaced at half of them, one id in two being ours.
  package static let streamsMaximum: UInt32 = 1 << 29

  private let timing: Timing
  package private(set) var phase: Phase
  private var lastReceivedAt: Instant
  private var lastAnsweredAt: Instant?
  /// A ping is under way; without its pong by then the peer is gone.
  private var pongDueAt: Instant?
  private var streamsOpened: UInt32 = 0

  package init(timing: Timing, now: Instant) {
    self.timing = timing
    phase = .opening(since: now)
    lastReceivedAt = now
  }

  package var isOpen: Bool { phase == .open }

  /// Whether it ever answered a request: one that never did is no proof that the peer wants us.
  package var hasAnswered: Bool { lastAnsweredAt != nil }

  /// Requests can be sent.
  package mutating func opened(now: Instant) {
    switch phase {
    case .opening:
      phase = .open
      lastReceivedAt = now
    case .draining:
      // Given up while it was being opened; `turn` closes it.
      lastReceivedAt = now
    case .open, .closed:
      preconditionFailure("a connection opens once")
    }
  }

  /// Bytes came from the peer, of any kind.
  package mutating func received(now: Instant) {
    lastReceivedAt = now
  }

  package mutating func answered(now: Instant) {
    lastAnsweredAt = now
  }

  package mutating func pongReceived() {
    pongDueAt = nil
  }

  /// Other connections answer and this one does not. true: send PING. That is asked early, so its pong may take until
  /// silence alone would have ended the connection: what is on it is not sent twice before.
  package mutating func pingIfSilent(now: Instant) -> Bool {
    guard phase == .open, pongDueAt == nil else { return false }
    pongDueAt = max(
      now.adding(milliseconds: timing.pongMilliseconds),
      lastReceivedAt.adding(milliseconds: timing.silenceMilliseconds + timing.pongMilliseconds))
    return true
  }

  /// A request went out. true: it was the last one that this connection takes.
  package mutating func sent() -> Bool {
    streamsOpened += 1
    guard streamsOpened >= ConnectionState.streamsMaximum else { return false }
    drain(.rotated)
    return true
  }

  /// A request that was sent at `sentAt` got no answer in time. true: nor did any other, so the connection is stuck.
  package mutating func timedOut(sentAt: Instant) -> Bool {
    guard phase == .open else { return false }
    if let last = lastAnsweredAt, last >= sentAt { return false }
    drain(.stuck)
    return true
  }

  /// No more requests on it.
  package mutating func drain(_ reason: EndReason) {
    switch phase {
    case .opening, .open: phase = .draining(reason)
    case .draining, .closed: break
    }
  }

  /// The transport ended, by whomever.
  package mutating func closed() {
    switch phase {
    case .opening(_), .open: phase = .closed(.lost)
    case .draining(let reason): phase = .closed(reason)
    case .closed: break
    }
  }

  /// Once a turn, after what came in was taken. Call again after each action until it is `none`.
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
