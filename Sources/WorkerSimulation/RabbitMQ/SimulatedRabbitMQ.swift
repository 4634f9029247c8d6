import PushCore

/// A RabbitMQ 3.10 of the simulated world. It speaks AMQP 0-9-1 on simulated connections, and its exchanges, quorum queues,
/// classic queues and streams behave like those of the real server.
///
/// It has its own protocol code, written from the specification, independent of the client's.
/// Not supported: transactions, `basic.get`, `basic.recover`, bindings between exchanges, permissions, policies, CC and BCC headers,
/// priorities, consumers of streams. All randomness comes from the seed; without faults there is none.
package final class SimulatedRabbitMQ: SimulatedPeer {
  package let settings: Settings
  package var faults: Faults
  /// Receives every event of a message.
  package var observer: ((SimulatedRabbitMQEvent) -> Void)?

  var random: SeededRandom
  var now: Int64 = 0
  /// Oldest first.
  var sessions: [RabbitSession] = []
  private var sessionsByID: [SimulatedConnectionID: RabbitSession] = [:]
  /// Connections with unsent bytes, in order.
  private var dirty: [RabbitSession] = []
  private var actions = RabbitFIFO<SimulatedPeerAction>()
  /// In order of declaration.
  var queues: [RabbitQueue] = []
  var queuesByName: [[UInt8]: RabbitQueue] = [:]
  /// Kept because deliveries may still refer to them.
  var deletedQueues: [RabbitQueue] = []
  var exchanges: [[UInt8]: RabbitExchange] = [:]
  /// Messages that died in this step; they are handed over at its end.
  var dead = RabbitFIFO<(queue: RabbitQueue, entry: RabbitEntry, reason: RabbitQueue.DeathReason)>()
  private var messageCount = 0
  /// Active alarms, in the server's words; they block connections that publish.
  var alarms: [String] = []
  package internal(set) var isStopped = false
  /// This many of the next publishes with confirms get none.
  var confirmsToDrop = 0
  var publishesToRefuse = 0
  /// Recent settlements, for a crash that loses them.
  var recentlySettled = RabbitFIFO<(consumer: RabbitConsumer, id: Int, entry: RabbitEntry, at: Int64)>()

  private static let sessionsMaximum = 10_000
  static let recentMaximum = 1000
  static let exchangesMaximum = 10_000
  static let queuesMaximum = 10_000
  /// Nanoseconds from a queue's declaration until it knows its lifetime of messages.
  static let lifetimeDelay: Int64 = 20_000_000

  package init(seed: UInt64, settings: Settings = Settings(), faults: Faults = Faults()) {
    random = SeededRandom(seed: seed)
    self.settings = settings
    self.faults = faults
    let standard: [(String, RabbitExchange.Kind)] = [
      ("", .direct), ("amq.direct", .direct), ("amq.fanout", .fanout), ("amq.topic", .topic), ("amq.headers", .headers),
    ]
    for (name, kind) in standard {
      exchanges[Array(name.utf8)] = RabbitExchange(
        name: Array(name.utf8), kind: kind, isDurable: true, isAutoDelete: false, isInternal: false,
        arguments: RabbitTable())
    }
  }

  // MARK: - Events from the world

  package func opened(_ connection: SimulatedConnectionID, now: Int64) {
    advance(to: now)
    precondition(sessionsByID[connection] == nil, "a connection's number is never used again")
    precondition(sessions.count < SimulatedRabbitMQ.sessionsMaximum, "too many connections")
    guard !isStopped else {
      actions.append(.reset(connection))
      return
    }
    let session = RabbitSession(connection)
    session.endsAt = now + settings.handshakeNanoseconds
    sessions.append(session)
    sessionsByID[connection] = session
  }

  package func received(_ bytes: [UInt8], on connection: SimulatedConnectionID, now: Int64) {
    advance(to: now)
    // Bytes that arrive after the connection ended are ignored.
    guard let session = sessionsByID[connection], !bytes.isEmpty else { return }
    session.take(bytes)
    read(session)
    flush()
  }

  package func ended(_ connection: SimulatedConnectionID, isReset: Bool, now: Int64) {
    advance(to: now)
    guard let session = sessionsByID[connection] else { return }
    // The server does not support half-closed connections: it closes its half too.
    if !isReset { end(session, .close(connection)) } else { end(session, nil) }
    flush()
  }

  package func woke(now: Int64) {
    advance(to: now)
    tick()
    flush()
  }

  package var deadline: Int64? {
    var next = Int64.max
    for session in sessions {
      next = min(next, session.deadline)
      guard session.channelCount > 0 else { continue }
      for case let channel? in session.channels {
        next = min(next, channel.starts.isEmpty ? channel.nextConfirmAt : now)
        if let timeout = timeout(of: channel) { next = min(next, timeout) }
      }
    }
    for queue in queues {
      if queue.unavailableUntil != .min { next = min(next, queue.unavailableUntil) }
      if let expiresAt = queue.expiresAt { next = min(next, max(expiresAt, queue.unavailableUntil)) }
      if !queue.automatic.isEmpty { next = min(next, now) }
      if let first = queue.undelivered.first { next = min(next, first.at) }
    }
    return next == .max || isStopped ? nil : next
  }

  package func nextAction() -> SimulatedPeerAction? { actions.popFirst() }

  /// Every entry point begins with this.
  func advance(to now: Int64) {
    precondition(now >= self.now, "time does not run backwards")
    self.now = now
  }

  // MARK: - Time

  /// Handles everything that is due.
  private func tick() {
    guard !isStopped else { return }
    for queue in queues {
      if queue.unavailableUntil != .min, queue.unavailableUntil <= now { becameAvailable(queue) }
      if let expiresAt = queue.expiresAt, expiresAt <= now { queue.checkout(now: now) }
      queue.settleAutomatic(now: now)
      retryDeadLetters(of: queue)
    }
    handOver()
    for session in sessions {
      for case let channel? in session.channels {
        startLate(channel)
        sendConfirms(channel)
        if let timeout = timeout(of: channel), timeout <= now { consumerTimedOut(channel) }
      }
      if session.mustSend(now: now), session.phase != .silent {
        session.writer.beginFrame(RabbitFrame.heartbeat, channel: 0)
        session.writer.endFrame()
        touch(session)
      }
      // A client that is silent for too long gets no close frame.
      if session.isLost(now: now) { end(session, .close(session.id)) }
      if let endsAt = session.endsAt, endsAt <= now { end(session, .close(session.id)) }
    }
  }

  /// When the oldest delivery exceeds the consumer timeout, rounded up to the channel's check interval.
  private func timeout(of channel: RabbitChannel) -> Int64? {
    guard settings.consumerTimeoutNanoseconds > 0, channel.phase == .open, let oldest = channel.unsettled.first else {
      return nil
    }
    let tick = settings.channelTickNanoseconds
    let turns = (oldest.at + settings.consumerTimeoutNanoseconds - channel.openedAt) / tick + 1
    return channel.openedAt + turns * tick
  }

  private func consumerTimedOut(_ channel: RabbitChannel) {
    let milliseconds = settings.consumerTimeoutNanoseconds / 1_000_000
    let error = RabbitError(
      .preconditionFailed,
      "delivery acknowledgement on channel \(channel.number) timed out. Timeout value used: \(milliseconds) ms. "
        + "This timeout value can be configured, see consumers doc guide to learn more")
    fail(channel, error)
  }

  // MARK: - Bytes

  /// Marks the connection as having unsent bytes.
  func touch(_ session: RabbitSession) {
    guard !session.isDirty else { return }
    session.isDirty = true
    dirty.append(session)
  }

  /// Sends written bytes. Every entry point ends with this.
  func flush() {
    guard !dirty.isEmpty else { return }
    for session in dirty { send(session) }
    dirty.removeAll(keepingCapacity: true)
  }

  private func send(_ session: RabbitSession) {
    session.isDirty = false
    guard !session.writer.isEmpty else { return }
    let bytes = session.writer.take()
    guard session.phase != .gone else { return }
    session.didSend(bytes.count)
    actions.append(.send(session.id, bytes))
  }

  /// Ends the connection and requeues the deliveries of its channels.
  func end(_ session: RabbitSession, _ action: SimulatedPeerAction?) {
    guard session.phase != .gone else { return }
    if session.isDirty { send(session) }
    session.phase = .gone
    sessionsByID[session.id] = nil
    sessions.removeAll { $0 === session }
    if let action { actions.append(action) }
    endChannels(of: session)
  }

  // MARK: - Randomness

  /// True with a probability of `perMille`/1000; draws nothing if that is 0.
  func chance(_ perMille: Int) -> Bool {
    perMille > 0 && pick(1000) < perMille
  }

  /// A random number from 0 to `bound` - 1.
  func pick(_ bound: Int64) -> Int64 {
    Int64(random.next() % UInt64(bound))
  }

  // MARK: - Messages

  func makeMessage(
    origin: Int = 0, exchange: [UInt8], routingKey: [UInt8], properties: [UInt8], body: [UInt8], lifetime: Int64? = nil,
    atRiskUntil: Int64 = .min
  ) -> RabbitMessage {
    messageCount += 1
    return RabbitMessage(
      number: messageCount, origin: origin, exchange: exchange, routingKey: routingKey, properties: properties,
      body: body, lifetime: lifetime, atRiskUntil: atRiskUntil)
  }

  func observe(_ event: @autoclosure () -> SimulatedRabbitMQEvent) {
    if let observer { observer(event()) }
  }
}
