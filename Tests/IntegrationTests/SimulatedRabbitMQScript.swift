import PushCore
import TestSupport
import WorkerSimulation

/// The simulated RabbitMQ for a script, with a clock that the script advances.
final class SimulatedRabbitMQPlayer: RawAMQPServer {
  let server: SimulatedRabbitMQ
  private var now: Int64 = 0
  private var ids: [SimulatedConnectionID?]
  private var listeners: [RawAMQPListener]
  private var nextID = 1
  private let splits: Bool
  private var random: SeededRandom

  /// `splits`: the server receives split bytes.
  init(seed: UInt64, connectionCount: Int, splits: Bool) {
    server = SimulatedRabbitMQ(seed: seed)
    random = SeededRandom(seed: seed)
    ids = Array(repeating: nil, count: connectionCount)
    listeners = Array(repeating: RawAMQPListener(), count: connectionCount)
    self.splits = splits
  }

  var deliveries: [[RawAMQPListener.Delivery]] { listeners.map(\.deliveries) }

  func connect(_ connection: Int) {
    let id = SimulatedConnectionID(nextID)
    nextID += 1
    ids[connection] = id
    listeners[connection] = RawAMQPListener()
    server.opened(id, now: now)
  }

  func disconnect(_ connection: Int) {
    guard let id = ids[connection] else { return }
    ids[connection] = nil
    server.ended(id, isReset: true, now: now)
    settle()
  }

  func send(_ bytes: [UInt8], on connection: Int) {
    guard let id = ids[connection] else { return }
    var start = 0
    while start < bytes.count {
      let count = splits ? 1 + Int(random.next() % 40) : bytes.count
      server.received(Array(bytes[start..<min(bytes.count, start + count)]), on: id, now: now)
      start += count
    }
    settle()
  }

  func pass(milliseconds: Int) {
    let end = now + Int64(milliseconds) * 1_000_000
    while let deadline = server.deadline, deadline <= end {
      now = max(now, deadline)
      server.woke(now: now)
      settle()
    }
    now = end
  }

  func hear(expected: [Int]?) -> [[RawAMQPListener.Line]] {
    settle()
    return listeners.indices.map { listeners[$0].takeLines() }
  }

  func forget(channel: UInt16, on connection: Int) { listeners[connection].forget(channel: channel) }

  private func settle() {
    while let deadline = server.deadline, deadline <= now { server.woke(now: now) }
    while let action = server.nextAction() {
      switch action {
      case .send(let id, let bytes):
        if let connection = ids.firstIndex(of: id) { listeners[connection].take(bytes) }
      case .close(let id), .reset(let id):
        if let connection = ids.firstIndex(of: id) { ids[connection] = nil }
      }
    }
  }
}

/// A random script of client operations, played against both servers step by step. The simulated one comes first: later steps settle
/// the messages that it delivered.
struct SimulatedRabbitMQScript {
  private struct Channel {
    var consumers: [String] = []
    var cancelled: Set<String> = []
    /// All consumers read this queue: the order between two queues is undefined.
    var queue = Queue.sync
    var outstanding: [UInt64] = []
    var seenDeliveries = 0
  }

  private let simulated: SimulatedRabbitMQPlayer
  private let real: RawAMQPPort
  private var random: SeededRandom
  private let prefix: String
  private var channels: [[Channel]] = []
  private var bodies = 0
  private(set) var trace: [String] = []
  /// The first step after which the servers' answers differ.
  private(set) var difference: String?
  private(set) var lineCount = 0

  private static let connectionCount = 2
  private static let channelCount = 2
  private static let lifetime = 60
  private static let waitMilliseconds = 130

  init(seed: UInt64, prefix: String, port: UInt16, splits: Bool) throws(TestFailure) {
    simulated = SimulatedRabbitMQPlayer(seed: seed, connectionCount: Self.connectionCount, splits: splits)
    self.prefix = prefix
    real = try RawAMQPPort(port: port, connectionCount: Self.connectionCount, queue: "\(prefix).barrier")
    random = SeededRandom(seed: seed)
    channels = Array(
      repeating: Array(repeating: Channel(), count: Self.channelCount), count: Self.connectionCount)
  }

  // MARK: - Names

  private enum Queue: String, CaseIterable {
    case plain, limited, timed, short, dropping, classic, single, dead, sync
  }

  private func name(_ queue: Queue) -> String { "\(prefix).\(queue.rawValue)" }

  private func arguments(_ queue: Queue) -> RawAMQP.Arguments {
    let quorum: RawAMQP.Arguments = [("x-queue-type", .text("quorum"))]
    let dead: RawAMQP.Arguments = [("x-dead-letter-exchange", .text("\(prefix).fanout"))]
    let safely: RawAMQP.Arguments = [
      ("x-dead-letter-strategy", .text("at-least-once")), ("x-overflow", .text("reject-publish")),
    ]
    switch queue {
    case .plain, .dead, .sync: return quorum
    case .limited: return quorum + dead + safely + [("x-delivery-limit", .number(2))]
    case .timed:
      return quorum + safely + [
        ("x-message-ttl", .number(Int64(Self.lifetime))), ("x-dead-letter-exchange", .text("")),
        ("x-dead-letter-routing-key", .text(name(.limited))),
      ]
    case .short: return quorum + [("x-max-length", .number(5)), ("x-overflow", .text("reject-publish"))]
    case .dropping: return quorum + dead + [("x-max-length", .number(2)), ("x-delivery-limit", .number(1))]
    case .classic: return dead
    case .single:
      return quorum + [("x-single-active-consumer", .flag(true)), ("x-delivery-limit", .number(20))]
    }
  }

  // MARK: - Play

  mutating func play(steps: Int) {
    setUp()
    for _ in 0..<steps where difference == nil { step() }
    if difference == nil { tellApart(after: "a while") { $0.pass(milliseconds: 40) } }
    // Every queue of a real server takes resources.
    let queues = Queue.allCases.map { name($0) } + ["\(prefix).barrier"]
    real.connect(0)
    real.send(RawAMQP.greeting, on: 0)
    _ = real.hear(expected: [1, 0])
    real.send(RawAMQP.startOK(), on: 0)
    _ = real.hear(expected: [1, 0])
    real.send(RawAMQP.tuneOK() + RawAMQP.open() + RawAMQP.openChannel(1), on: 0)
    for queue in queues { real.send(RawAMQP.deleteQueue(queue, 1), on: 0) }
    for exchange in ["fanout", "topic"] { real.send(RawAMQP.deleteExchange("\(prefix).\(exchange)", 1), on: 0) }
    _ = real.hear(expected: [2 + queues.count + 1, 0])
  }

  private mutating func setUp() {
    for connection in 0..<Self.connectionCount { connect(connection) }
    var bytes = RawAMQP.declareExchange("\(prefix).fanout", "fanout", 1)
    bytes += RawAMQP.declareExchange(
      "\(prefix).topic", "topic", 1, arguments: [("alternate-exchange", .text("\(prefix).fanout"))])
    for queue in Queue.allCases { bytes += RawAMQP.declareQueue(name(queue), 1, arguments: arguments(queue)) }
    bytes += RawAMQP.bind(name(.dead), to: "\(prefix).fanout", "", 1)
    for (queue, key) in [(Queue.plain, "a.*"), (.limited, "a.#"), (.classic, "#.z"), (.limited, "*.b.c")] {
      bytes += RawAMQP.bind(name(queue), to: "\(prefix).topic", key, 1)
    }
    send(bytes, on: 0, "declare everything")
    // A quorum queue learns its lifetime after it began, in its own time.
    waitForMoment()
  }

  private mutating func connect(_ connection: Int) {
    tellApart(after: "connect \(connection)") {
      $0.connect(connection)
      $0.send(RawAMQP.greeting, on: connection)
    }
    send(RawAMQP.startOK(), on: connection, "start-ok")
    send(RawAMQP.tuneOK() + RawAMQP.open(), on: connection, "tune-ok, open")
    channels[connection] = Array(repeating: Channel(), count: Self.channelCount)
    for channel in 1...Self.channelCount { open(UInt16(channel), on: connection) }
  }

  private mutating func open(_ channel: UInt16, on connection: Int) {
    simulated.forget(channel: channel, on: connection)
    real.forget(channel: channel, on: connection)
    let prefetch = UInt16([0, 1, 2, 3, 10][pick(5)])
    var bytes = RawAMQP.openChannel(channel) + RawAMQP.qos(prefetch, channel)
    if channel == 1 { bytes += RawAMQP.selectConfirms(channel) }
    channels[connection][Int(channel) - 1] = Channel()
    // A lost connection's channels are cleaned up in an undefined order, so each of them reads another queue.
    let other = channels[connection][2 - Int(channel)].queue
    let queues = [Queue.plain, .limited, .short, .dropping, .classic, .single, .dead, .limited].filter { $0 != other }
    channels[connection][Int(channel) - 1].queue = queues[pick(queues.count)]
    channels[connection][Int(channel) - 1].seenDeliveries =
      simulated.deliveries[connection].filter { $0.channel == channel }.count
    send(bytes, on: connection, "open \(channel) with prefetch \(prefetch)")
  }

  private mutating func pick(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

  /// One operation of a client.
  private mutating func step() {
    let connection = pick(Self.connectionCount)
    let channel = UInt16(1 + pick(Self.channelCount))
    let queue = channels[connection][Int(channel) - 1].queue
    switch pick(100) {
    case 0..<30: publish(channel, on: connection)
    case 30..<44:
      let tag = ["x", "y", "z"][pick(3)]
      // A classic queue picks its next consumer in an undefined order.
      if queue == .classic, channels.contains(where: { $0.contains { $0.queue == .classic && !$0.consumers.isEmpty } })
      {
        return
      }
      // A quorum queue of RabbitMQ 3.10 may end the connection with 541 if a tag comes again while its messages are held.
      note(deliveriesOf: connection)
      let own = channels[connection][Int(channel) - 1]
      if queue != .classic, own.cancelled.contains(tag), !own.outstanding.isEmpty { return }
      // A consumer tag in use ends the connection, so this is rare.
      if channels[connection][Int(channel) - 1].consumers.contains(tag), pick(6) > 0 { return }
      channels[connection][Int(channel) - 1].consumers.append(tag)
      // Alone in its step: a real server may answer later requests first.
      send(
        RawAMQP.consume(name(queue), tag: tag, channel, needsNoAck: pick(8) == 0), on: connection,
        "\(channel): consume \(queue) as \(tag)")
    case 44..<76: settle(channel, on: connection)
    case 76..<80:
      let tag = ["x", "y", "z"][pick(3)]
      channels[connection][Int(channel) - 1].consumers.removeAll { $0 == tag }
      channels[connection][Int(channel) - 1].cancelled.insert(tag)
      send(RawAMQP.cancel(tag: tag, channel), on: connection, "\(channel): cancel \(tag)")
    case 80..<84:
      send(RawAMQP.closeChannel(channel), on: connection, "close channel \(channel)")
      waitForMoment()
      open(channel, on: connection)
    case 84..<87:
      tellApart(after: "disconnect \(connection)") { $0.disconnect(connection) }
      connect(connection)
    case 87..<89:
      async(RawAMQP.purge(name(queue), channel), channel, on: connection, "purge \(queue)")
    case 89..<95: expire(channel, on: connection)
    default: wrong(channel, on: connection, queue)
    }
  }

  private mutating func body() -> [UInt8] {
    bodies += 1
    let text = Array("m\(bodies)".utf8)
    return pick(12) == 0 ? text + [UInt8](repeating: 46, count: 4080 + pick(9000)) : text
  }

  private mutating func publish(_ channel: UInt16, on connection: Int) {
    var bytes: [UInt8] = []
    var words: [String] = []
    // One target: the order of a dead letter and a publish to the same queue is undefined. A full queue tells its
    // publishers a little later.
    let target = pick(10)
    let queue = [Queue.plain, .limited, .short, .dropping, .classic, .single, .dead][pick(7)]
    // It is undefined too which message a queue drops while it delivers others to its consumer.
    for _ in 0...(queue == .short || queue == .dropping ? 0 : pick(5)) {
      let (exchange, key): (String, String)
      switch target {
      case 0..<7: (exchange, key) = ("", name(queue))
      case 7: (exchange, key) = ("", "nowhere")
      default: (exchange, key) = ("\(prefix).topic", ["a.b", "a.b.c", "x.b.c", "z", "q.z", "nowhere", ""][pick(7)])
      }
      let headers: RawAMQP.Arguments? = pick(3) == 0 ? [("x-own", .number(Int64(bodies)))] : nil
      bytes += RawAMQP.publish(
        body(), to: exchange, key, channel, isMandatory: pick(2) == 0, headers: headers, partMaximum: 1000 + pick(3000))
      words.append("\(exchange)/\(key)")
    }
    async(bytes, channel, on: connection, "publish to \(words)")
  }

  /// A message that expires within the step.
  private mutating func expire(_ channel: UInt16, on connection: Int) {
    let bytes =
      pick(2) == 0
      ? RawAMQP.publish(body(), to: "", name(.timed), channel)
      : RawAMQP.publish(
        body(), to: "", name([.limited, .plain, .classic][pick(3)]), channel, expiration: "\(Self.lifetime)")
    async(bytes, channel, on: connection, "publish what expires")
    tellApart(after: "its time") { $0.pass(milliseconds: Self.waitMilliseconds) }
  }

  private mutating func settle(_ channel: UInt16, on connection: Int) {
    note(deliveriesOf: connection)
    var outstanding = channels[connection][Int(channel) - 1].outstanding
    guard !outstanding.isEmpty else { return }
    let index = pick(outstanding.count)
    let isAll = pick(20) == 0
    let tag = isAll ? 0 : outstanding[index]
    let isMultiple = isAll || pick(3) == 0
    if isAll {
      outstanding = []
    } else if isMultiple {
      outstanding.removeFirst(index + 1)
    } else {
      outstanding.remove(at: index)
    }
    channels[connection][Int(channel) - 1].outstanding = outstanding
    let more = isMultiple ? " and before" : ""
    switch pick(5) {
    case 0, 1:
      async(
        RawAMQP.acknowledge(tag, channel, isMultiple: isMultiple), channel, on: connection, "ack \(tag)\(more)")
    case 2:
      async(
        RawAMQP.nack(tag, channel, isMultiple: isMultiple, requeues: false), channel, on: connection,
        "nack \(tag)\(more)")
    case 3 where !isMultiple:
      async(RawAMQP.reject(tag, channel, requeues: true), channel, on: connection, "give back \(tag)")
    default:
      async(
        RawAMQP.nack(tag, channel, isMultiple: isMultiple, requeues: true), channel, on: connection,
        "give back \(tag)\(more)")
    }
    // What became a dead letter comes to its queue in its own time.
    let queue = channels[connection][Int(channel) - 1].queue
    if queue == .limited || queue == .dropping || queue == .classic { waitForMoment() }
  }

  /// An operation that a server refuses.
  private mutating func wrong(_ channel: UInt16, on connection: Int, _ queue: Queue) {
    switch pick(9) {
    case 0: send(RawAMQP.acknowledge(99_999, channel), on: connection, "ack of nothing")
    case 1: send(RawAMQP.declareQueue("\(prefix).none", channel, isPassive: true), on: connection, "no queue")
    case 2:
      let other: RawAMQP.Arguments = arguments(queue) + [("x-max-length", .number(77))]
      send(RawAMQP.declareQueue(name(queue), channel, arguments: other), on: connection, "another \(queue)")
    case 3:
      send(RawAMQP.publish([1], to: "\(prefix).none", "", channel), on: connection, "publish to no exchange")
    case 4: send(RawAMQP.bind(name(queue), to: "\(prefix).none", "", channel), on: connection, "bind to nothing")
    case 5:
      send(RawAMQP.declareExchange("\(prefix).fanout", "direct", channel), on: connection, "another exchange")
    case 6: send(RawAMQP.consume("\(prefix).none", tag: "q", channel), on: connection, "consume nothing")
    case 7: send(RawAMQP.openChannel(channel), on: connection, "open it again")
    default:
      send(
        RawAMQP.publish([1], to: "", name(queue), channel, expiration: "soon"), on: connection, "no such expiration")
    }
  }

  // MARK: - Compare

  /// Sends an operation that has no answer, and then one that has.
  private mutating func async(_ bytes: [UInt8], _ channel: UInt16, on connection: Int, _ words: String) {
    send(
      bytes + RawAMQP.declareQueue(name(.sync), channel, isPassive: true), on: connection, "\(channel): \(words)")
  }

  private mutating func send(_ bytes: [UInt8], on connection: Int, _ words: String) {
    tellApart(after: "\(connection): \(words)") { $0.send(bytes, on: connection) }
  }

  /// Queues notice a little later that a channel is gone.
  private mutating func waitForMoment() {
    tellApart(after: "a moment") { $0.pass(milliseconds: 30) }
  }

  private mutating func tellApart(after words: String, _ act: (any RawAMQPServer) -> Void) {
    guard difference == nil else { return }
    act(simulated)
    let expected = simulated.hear(expected: nil)
    act(real)
    let heard = real.hear(expected: expected.map(\.count))
    trace.append(words)
    for connection in expected.indices {
      let (left, right) = (sorted(expected[connection]), sorted(heard[connection]))
      lineCount += left.count
      trace += left.map { "    \(connection) \($0)" }
      if left != right {
        difference =
          "after '\(words)' connection \(connection) heard\n  simulated: \(left.joined(separator: "\n             "))"
          + "\n  real:      \(right.joined(separator: "\n             "))"
        return
      }
    }
    for connection in expected.indices { answer(expected[connection], on: connection) }
  }

  /// By channel: deliveries in order, confirms in any order, all others in order.
  private func sorted(_ lines: [RawAMQPListener.Line]) -> [String] {
    var result: [String] = []
    for channel in 0...UInt16(Self.channelCount) {
      let own = lines.filter { $0.channel == channel }.map(\.text)
      let confirms = own.filter { $0.hasPrefix("ack of") || $0.hasPrefix("nack of") }
      let deliveries = own.filter { $0.hasPrefix("basic.deliver") }
      let others = own.filter { !confirms.contains($0) && !deliveries.contains($0) }
      result += (others + deliveries + confirms.sorted()).map { "\(channel) \($0)" }
    }
    return result
  }

  /// Reopens a channel or a connection that the server closed.
  private mutating func answer(_ lines: [RawAMQPListener.Line], on connection: Int) {
    if lines.contains(where: { $0.text.hasPrefix("connection.close ") }) {
      tellApart(after: "close-ok, disconnect \(connection)") {
        $0.send(RawAMQP.closeOK, on: connection)
        $0.disconnect(connection)
      }
      connect(connection)
      return
    }
    for line in lines where line.text.hasPrefix("channel.close ") {
      send(RawAMQP.closeChannelOK(line.channel), on: connection, "close-ok of \(line.channel)")
      waitForMoment()
      open(line.channel, on: connection)
    }
  }

  private mutating func note(deliveriesOf connection: Int) {
    for index in channels[connection].indices {
      let own = simulated.deliveries[connection].filter { $0.channel == UInt16(index + 1) }
      for delivery in own.dropFirst(channels[connection][index].seenDeliveries) {
        channels[connection][index].outstanding.append(delivery.tag)
      }
      channels[connection][index].seenDeliveries = own.count
    }
  }
}
