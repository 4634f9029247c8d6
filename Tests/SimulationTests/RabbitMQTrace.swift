import PushCore
import TestSupport
import WorkerSimulation

/// A simulated RabbitMQ with scripted clients: each line has what is sent, and what every client received.
final class RabbitMQTrace {
  let server: SimulatedRabbitMQ
  private(set) var now: Int64 = 0
  private var listeners: [SimulatedConnectionID: RawAMQPListener] = [:]
  /// Connections that the server closed, and how.
  private(set) var ends: [SimulatedConnectionID: String] = [:]
  private(set) var events: [String] = []
  private var nextID = 1

  static let quorum: RawAMQP.Arguments = [("x-queue-type", .text("quorum"))]

  init(
    seed: UInt64 = 1, settings: SimulatedRabbitMQ.Settings = .init(), faults: SimulatedRabbitMQ.Faults = .init()
  ) {
    server = SimulatedRabbitMQ(seed: seed, settings: settings, faults: faults)
    server.observer = { [unowned self] event in note(event) }
  }

  private func note(_ event: SimulatedRabbitMQEvent) {
    switch event {
    case .stored(let queue, let message): events.append("stored \(message.number) in \(queue)")
    case .confirmed(_, _, let number, let message): events.append("confirmed \(message.number) as \(number)")
    case .refused(_, _, let number, let message): events.append("refused \(message.number) as \(number)")
    case .returned(_, _, let message): events.append("returned \(message.number)")
    case .delivered(let queue, let message, let delivery):
      events.append("delivered \(message.number) of \(queue) as \(delivery.tag) count \(delivery.deliveryCount)")
    case .acknowledged(let queue, let message): events.append("acknowledged \(message.number) of \(queue)")
    case .rejected(let queue, let message): events.append("rejected \(message.number) of \(queue)")
    case .requeued(let queue, let message, let count):
      events.append("requeued \(message.number) in \(queue) count \(count)")
    case .died(let queue, let message, let reason, let isGone):
      events.append("died \(message.number) of \(queue) \(reason)\(isGone ? " for good" : "")")
    case .deadLettered(_, let message, let copy, let queues):
      events.append("dead letter \(message.number) is \(copy.number) in \(queues)")
    case .lost(let queue, let message): events.append("lost \(message.number) of \(queue)")
    case .purged(let queue, let count): events.append("purged \(count) of \(queue)")
    }
  }

  func takeEvents() -> [String] {
    defer { events = [] }
    return events
  }

  // MARK: - Clients

  func connect() -> SimulatedConnectionID {
    let id = SimulatedConnectionID(nextID)
    nextID += 1
    listeners[id] = RawAMQPListener()
    server.opened(id, now: now)
    settle()
    return id
  }

  /// A connection with channels 1 to `channels`, of which the first confirms.
  func open(channels: UInt16 = 1, heartbeat: UInt16 = 0) -> SimulatedConnectionID {
    let id = connect()
    var bytes = RawAMQP.greeting + RawAMQP.startOK() + RawAMQP.tuneOK(heartbeat: heartbeat) + RawAMQP.open()
    for channel in 1...channels { bytes += RawAMQP.openChannel(channel) }
    bytes += RawAMQP.selectConfirms(1)
    _ = send(bytes, on: id)
    return id
  }

  /// Sends bytes and returns what this client received; the other clients receive theirs later.
  func send(_ bytes: [UInt8], on id: SimulatedConnectionID) -> [String] {
    server.received(bytes, on: id, now: now)
    settle()
    return heard(id)
  }

  func disconnect(_ id: SimulatedConnectionID, isReset: Bool = true) {
    server.ended(id, isReset: isReset, now: now)
    settle()
  }

  func heard(_ id: SimulatedConnectionID) -> [String] {
    settle()
    return listeners[id]?.takeLines().map { "\($0.channel) \($0.text)" } ?? []
  }

  // MARK: - Time

  func pass(_ seconds: Double) {
    let end = now + Int64(seconds * 1_000_000_000)
    while let deadline = server.deadline, deadline <= end {
      now = max(now, deadline)
      server.woke(now: now)
      settle()
    }
    now = end
  }

  func settle() {
    while let deadline = server.deadline, deadline <= now { server.woke(now: now) }
    while let action = server.nextAction() {
      switch action {
      case .send(let id, let bytes): listeners[id]?.take(bytes)
      case .close(let id): ends[id] = "closed at \(now / 1_000_000_000)"
      case .reset(let id): ends[id] = "reset at \(now / 1_000_000_000)"
      }
    }
  }

  // MARK: - Queues

  /// Publishes messages with these bodies to a queue, with confirms.
  func put(_ bodies: String..., in queue: String) {
    for body in bodies {
      server.publish(
        exchange: "", routingKey: queue, properties: RabbitProperties(), body: Array(body.utf8), now: now)
    }
    settle()
  }

  /// The ready bodies of a queue, in order, each with its number of requeues.
  func ready(_ queue: String) -> [String] { server.readyMessages(in: queue).map(RabbitMQTrace.text) }
  func held(_ queue: String) -> [String] { server.heldMessages(in: queue).map(RabbitMQTrace.text) }

  private static func text(_ entry: RabbitEntry) -> String {
    String(decoding: entry.message.body, as: UTF8.self) + (entry.deliveryCount > 0 ? "+\(entry.deliveryCount)" : "")
  }
}
