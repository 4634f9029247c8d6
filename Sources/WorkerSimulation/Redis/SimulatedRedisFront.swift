import PushCore

/// A client's connection to a simulated Redis or Sentinel.
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
  /// The client sent ASKING: the next command may use a slot that migrates to this node.
  var isAsking = false
  /// It sent QUIT or violated the protocol.
  var isClosing = false
  /// Its connection was reset, but commands that had arrived still run.
  var isGone = false
  /// After this many more bytes of replies the connection is reset.
  var bytesUntilReset: Int?
  /// When its last reply is sent.
  var repliesAt: Int64 = .min

  init(_ connection: SimulatedConnectionID, number: Int64, openedAt: Int64, isAuthenticated: Bool) {
    self.connection = connection
    self.number = number
    self.openedAt = openedAt
    self.isAuthenticated = isAuthenticated
  }
}

/// The connections of a simulated Redis or Sentinel: parses commands, writes replies, and injects faults into both.
package class SimulatedRedisFront: SimulatedPeer {
  private enum Held {
    case bytes([UInt8], SimulatedRedisSession)
    case ended(SimulatedRedisSession)
  }

  private struct Scheduled {
    let due: Int64
    let action: SimulatedPeerAction
  }

  /// It accepts connections.
  package private(set) var isUp = true
  /// Delay between a command and its reply, nanoseconds, drawn for each reply; nil: none.
  package var replyDelay: ClosedRange<Int64>?
  private(set) var sessions: [SimulatedConnectionID: SimulatedRedisSession] = [:]
  var random: SeededRandom
  private var clientCount: Int64 = 0
  /// Events during a stall, in order; nil: it is not stalled.
  private var held: [Held]?
  private var actions: [SimulatedPeerAction] = []
  private var taken = 0
  /// In order of due time, then of insertion.
  private var scheduled: [Scheduled] = []
  private var resetOfNextReply: Int?

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
  }

  func answer(_ words: [[UInt8]], _ session: SimulatedRedisSession, now: Int64) -> SimulatedRedisReply {
    preconditionFailure("a server answers")
  }

  /// Reports a protocol violation of a client.
  func heardNonsense(_ text: [UInt8], _ session: SimulatedRedisSession) {}

  /// Clients must authenticate first.
  var asksForPassword: Bool { false }

  // MARK: - Faults

  /// Stalls like a stopped process: it accepts bytes and connections, and does nothing.
  package func stall() { if held == nil { held = [] } }

  package var isStalled: Bool { held != nil }

  /// Ends a stall and runs the commands that arrived, even those of connections that are gone.
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

  /// Resets a connection after it received this many more bytes of replies. Its commands run all the same. nil: the connection of
  /// the next reply.
  package func resetReply(to connection: SimulatedConnectionID? = nil, afterBytes count: Int) {
    if let connection { sessions[connection]?.bytesUntilReset = count } else { resetOfNextReply = count }
  }

  /// Resets all connections, and accepts none until `start`.
  package func crash() {
    for connection in connections { actions.append(.reset(connection)) }
    sessions.removeAll()
    scheduled.removeAll()
    held = nil
    isUp = false
  }

  /// Accepts connections again.
  package func start() { isUp = true }

  /// Open connections, in order.
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

  /// Closes a connection whose client closed its half.
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
