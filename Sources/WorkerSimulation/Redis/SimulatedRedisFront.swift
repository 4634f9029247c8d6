import PushCore

/// A client of a simulated Redis or Sentinel, as the server sees it.
final class SimulatedRedisSession {
  let connection: SimulatedConnectionID
  /// `CLIENT ID`.
  let number: Int64
  let openedAt: Int64
  var parser = SimulatedRedisParser()
  /// RESP2 or RESP3.
  var version = 2
  var database = 0
  var name: [UInt8] = []
  var isAuthenticated: Bool
  /// The next command may ask for a slot that comes here.
  var isAsking = false
  /// It said goodbye, or broke the protocol.
  var isClosing = false
  /// Its connection is gone, but commands that had come are still run.
  var isGone = false
  /// After so many more bytes of replies the connection is reset.
  var bytesUntilReset: Int?
  /// When its last reply goes out.
  var repliesAt: Int64 = .min

  init(_ connection: SimulatedConnectionID, number: Int64, openedAt: Int64, isAuthenticated: Bool) {
    self.connection = connection
    self.number = number
    self.openedAt = openedAt
    self.isAuthenticated = isAuthenticated
  }
}

/// The sockets of a simulated Redis or Sentinel: bytes to commands, replies to bytes, and what may happen to both on the way.
package class SimulatedRedisFront: SimulatedPeer {
  private enum Held {
    case bytes([UInt8], SimulatedRedisSession)
    case ended(SimulatedRedisSession)
  }

  private struct Scheduled {
    let due: Int64
    let action: SimulatedPeerAction
  }

  /// Connections are accepted.
  package private(set) var isUp = true
  /// A reply goes out so many nanoseconds after its command ran, drawn anew each time; nil: at once.
  package var replyDelay: ClosedRange<Int64>?
  private(set) var sessions: [SimulatedConnectionID: SimulatedRedisSession] = [:]
  var random: SeededRandom
  private var clientCount: Int64 = 0
  /// What came since it stands still, in order; nil: it runs.
  private var held: [Held]?
  private var actions: [SimulatedPeerAction] = []
  private var taken = 0
  /// By due time, then in order.
  private var scheduled: [Scheduled] = []
  private var resetOfNextReply: Int?

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
  }

  /// Answers a command of a session.
  func answer(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    preconditionFailure("a server answers")
  }

  /// The client broke the protocol.
  func heardNonsense(_ text: [UInt8], _ session: SimulatedRedisSession) {}

  /// Clients must say a password first.
  var asksForPassword: Bool { false }

  // MARK: - Faults

  /// It stands still, as a stopped process does: it takes bytes and connections, and does nothing.
  package func stall() { if held == nil { held = [] } }

  package var isStalled: Bool { held != nil }

  /// It goes on: what came meanwhile is run now, also of connections that are gone.
  package func resume(now: Int64) {
    guard let events = held else { return }
    held = nil
    for event in events {
      switch event {
      case .bytes(let bytes, let session): hear(bytes, session, now: now)
      case .ended(let session): hangUp(session, now: now)
      }
    }
  }

  /// Resets a connection once it has got so many more bytes of replies. What it asked is run all the same. nil: that which
  /// is replied to next.
  package func resetReply(to connection: SimulatedConnectionID? = nil, afterBytes count: Int) {
    if let connection { sessions[connection]?.bytesUntilReset = count } else { resetOfNextReply = count }
  }

  /// Resets all connections, and takes no others.
  package func crash() {
    for connection in connections { actions.append(.reset(connection)) }
    sessions.removeAll()
    scheduled.removeAll()
    held = nil
    isUp = false
  }

  /// Takes connections again.
  package func start() { isUp = true }

  /// Those that it knows, in order.
  package var connections: [SimulatedConnectionID] { sessions.keys.sorted() }

  // MARK: - SimulatedPeer

  package func opened(_ connection: SimulatedConnectionID, now: Int64) {
    guard isUp else {
      actions.append(.reset(connection))
      return
    }
    clientCount += 1
    sessions[connection] = SimulatedRedisSession(
      connection, number: clientCount, openedAt: now, isAuthenticated: !asksForPassword)
  }

  package func received(_ bytes: [UInt8], on connection: SimulatedConnectionID, now: Int64) {
    guard let session = sessions[connection] else { return }
    if held == nil { hear(bytes, session, now: now) } else { held?.append(.bytes(bytes, session)) }
  }

  package func ended(_ connection: SimulatedConnectionID, isReset: Bool, now: Int64) {
    guard let session = sessions[connection] else { return }
    session.isGone = isReset
    scheduled.removeAll { isReset && Self.connection(of: $0.action) == connection }
    if held == nil { hangUp(session, now: now) } else { held?.append(.ended(session)) }
  }

  /// Redis hangs up on a client that closed its half.
  private func hangUp(_ session: SimulatedRedisSession, now: Int64) {
    guard sessions[session.connection] === session else { return }
    sessions[session.connection] = nil
    send(.close(session.connection), session, now: now)
  }

  package func woke(now: Int64) {
    while let first = scheduled.first, first.due <= now {
      actions.append(first.action)
      scheduled.removeFirst()
    }
  }

  package var deadline: Int64? { scheduled.first?.due }

  package func nextAction() -> SimulatedPeerAction? {
    guard taken < actions.count else {
      actions.removeAll(keepingCapacity: true)
      taken = 0
      return nil
    }
    taken += 1
    return actions[taken - 1]
  }

  // MARK: - Bytes

  private func hear(_ bytes: [UInt8], _ session: SimulatedRedisSession, now: Int64) {
    session.parser.feed(bytes)
    var output: [UInt8] = []
    reading: while !session.isClosing {
      switch session.parser.next() {
      case .incomplete: break reading
      case .command(let words): answer(words, session, now: now).write(to: &output, version: session.version)
      case .failure(let text):
        heardNonsense(text, session)
        SimulatedRedisReply.error(text).write(to: &output, version: session.version)
        session.isClosing = true
      }
    }
    if !output.isEmpty { send(output, session, now: now) }
    if session.isClosing, sessions[session.connection] === session {
      sessions[session.connection] = nil
      send(.close(session.connection), session, now: now)
    }
  }

  private func send(_ output: [UInt8], _ session: SimulatedRedisSession, now: Int64) {
    if session.isGone { return }
    if let count = resetOfNextReply {
      resetOfNextReply = nil
      session.bytesUntilReset = count
    }
    guard let left = session.bytesUntilReset, left <= output.count else {
      if let left = session.bytesUntilReset { session.bytesUntilReset = left - output.count }
      send(.send(session.connection, output), session, now: now)
      return
    }
    if left > 0 { send(.send(session.connection, Array(output.prefix(left))), session, now: now) }
    send(.reset(session.connection), session, now: now)
    sessions[session.connection] = nil
    session.isGone = true
  }

  private func send(_ action: SimulatedPeerAction, _ session: SimulatedRedisSession, now: Int64) {
    if session.isGone { return }
    var due = now
    if let replyDelay {
      due += replyDelay.lowerBound
      let width = UInt64(replyDelay.upperBound - replyDelay.lowerBound) + 1
      due += Int64(random.next() % width)
    }
    due = max(due, session.repliesAt)
    session.repliesAt = due
    guard due > now else {
      actions.append(action)
      return
    }
    let place = scheduled.lastIndex { $0.due <= due }.map { $0 + 1 } ?? 0
    scheduled.insert(Scheduled(due: due, action: action), at: place)
  }

  private static func connection(of action: SimulatedPeerAction) -> SimulatedConnectionID {
    switch action {
    case .send(let connection, _), .close(let connection), .reset(let connection): connection
    }
  }
}
