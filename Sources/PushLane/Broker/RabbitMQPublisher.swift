import Logging
import PushCore
import PushIO

/// A lane's publisher: its connection, the numbers of publishes, and the topology, which it declares.
///
/// Nothing is buffered here: the lane repeats lost publishes.
struct RabbitMQPublisher: ~Copyable {
  enum Event {
    case reported(BrokerEvent)
    /// Connected, and everything is declared.
    case up
    /// As `BrokerEvent.unblocked`.
    case unblocked
    /// An answer to another user's operation on the control channel.
    case answered(UInt32, AMQPReply)
  }

  let client: RabbitMQClient
  private let loop: EventLoop
  private let topology: Topology
  private let notices: RabbitMQNoticeBox
  private let properties = RabbitMQPublishProperties()
  private let results: AMQPExchange
  private let retries: AMQPExchange
  private let jobs: AMQPExchange
  /// To the queue that the routing key names.
  private let direct = AMQPExchange("", isMandatory: true)
  private let deadKey: [UInt8]
  /// By class.
  private let expansionsKeys: [[UInt8]]
  private let isolatedKey = Array(Topology.isolatedRoutingKey.utf8)
  /// By class, then by delay.
  private let retryKeys: [[[UInt8]]]

  private(set) var channels = RabbitMQPublishChannels()
  /// Between `up` and `BrokerEvent.publishingStopped`.
  private(set) var isPublishing = false
  private(set) var isBlocked = false
  /// The topology is not declared again before this time.
  private var nextDeclaration = Instant(nanoseconds: .min)

  private(set) var publishedCount: UInt64 = 0
  private(set) var confirmedCount: UInt64 = 0
  private(set) var refusedCount: UInt64 = 0
  private(set) var returnedCount: UInt64 = 0
  private(set) var lostCount: UInt64 = 0

  /// For declaring again and counting messages, beside the publishes.
  static let controlChannel: UInt16 = 2
  /// Minimum time between two declarations of the topology.
  private static let declarationMilliseconds: Int64 = 1000

  init(loop: EventLoop, settings: RabbitMQSettings, notices: RabbitMQNoticeBox) {
    self.loop = loop
    self.notices = notices
    let topology = settings.topology
    self.topology = topology
    results = AMQPExchange(topology.resultsExchange, isMandatory: settings.outcomesAreMandatory)
    retries = AMQPExchange(topology.retryExchange, isMandatory: true)
    deadKey = Array(topology.deadQueue.utf8)
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    expansionsKeys = JobClass.allCases.map { Array(topology.expansionsQueue($0).utf8) }
    retryKeys = JobClass.allCases.map { jobClass in
      topology.retryDelaysSeconds.map { Array(Topology.retryRoutingKey(jobClass, seconds: $0).utf8) }
    }
    client = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings, setUp: RabbitMQPublisher.setUp(topology)
    ) { notices.add($0, .publisher, $1) }
  }

  private static func setUp(_ topology: Topology) -> [(operation: AMQPOperation, channel: UInt16)] {
    RabbitMQPublishChannels.setUp + [(.openChannel, controlChannel)]
      + topology.declarations.map { ($0, controlChannel) }
  }

  var canPublish: Bool { client.isUp && !isBlocked }

  // MARK: - Events

  /// The next event of this turn; nil once everything is reported.
  mutating func nextEvent() -> Event? {
    while let event = client.nextEvent() {
      if let reported = take(event) { return reported }
    }
    return nil
  }

  private mutating func take(_ event: RabbitMQClient.Event) -> Event? {
    switch event {
    case .up:
      client.provedItself()
      channels.restart()
      nextDeclaration = loop.now.monotonic
      isPublishing = true
      isBlocked = client.blockedReason != nil
      return .up
    case .down:
      return .reported(ended())
    case .connection(.confirmed(let channel, let number, let isMultiple)):
      guard let settled = channels.settled(number, isMultiple: isMultiple, channel) else { return nil }
      confirmedCount = isMultiple ? max(confirmedCount, settled.upperBound) : confirmedCount + 1
      return .reported(.confirmed(settled))
    case .connection(.refused(let channel, let number, let isMultiple)):
      guard let settled = channels.settled(number, isMultiple: isMultiple, channel) else { return nil }
      refusedCount += 1
      return .reported(.refused(settled))
    case .connection(.returned):
      return takeReturned().map { .reported($0) }
    case .connection(.blocked):
      isBlocked = true
      let reason = client.blockedReason ?? "no reason given"
      notices.add(.warning, .publisher, "blocked by the broker: \(reason); publishing waits")
      return .reported(.blocked)
    case .connection(.unblocked):
      isBlocked = false
      notices.add(.info, .publisher, "no longer blocked")
      return .unblocked
    case .connection(.completed(_, let operation, let reply)):
      return channels.answered(operation) ? nil : .answered(operation, reply)
    case .connection(.delivery), .connection(.cancelled), .connection(.opened), .connection(.channelClosed),
      .connection(.closed):
      return nil
    }
  }

  private mutating func ended() -> BrokerEvent {
    isPublishing = false
    isBlocked = false
    lostCount += 1
    return .publishingStopped
  }

  /// Closes the connection. Returns what must be reported.
  mutating func restart(_ reason: AMQPError) -> BrokerEvent? {
    let wasUp = client.isUp
    client.restart(reason)
    return wasUp ? ended() : nil
  }

  /// A message that no queue takes, by its number: the topology is declared again.
  private mutating func takeReturned() -> BrokerEvent? {
    guard let connection = client.connection else { return nil }
    returnedCount += 1
    notices.add(
      .warning, .publisher,
      "no queue takes messages of \(connection.returnedExchange) with '\(connection.returnedRoutingKey)': "
        + "declaring queues and bindings again")
    guard let number = RabbitMQPublishNumber.ofReturned(connection), channels.markReturned(number) else {
      // It is unknown which message it was, so all unconfirmed ones are published again on a new connection.
      client.fail(.connectionLost(to: "the broker", reason: "a returned message does not carry its number"))
      return ended()
    }
    declareAgain()
    return .refused(number...number)
  }

  /// Queues or bindings may be gone.
  mutating func declareAgain() {
    let now = loop.now.monotonic
    guard nextDeclaration <= now, let connection = client.connection else { return }
    nextDeclaration = now.adding(milliseconds: RabbitMQPublisher.declarationMilliseconds)
    for operation in topology.declarations {
      connection.request(operation, channel: RabbitMQPublisher.controlChannel)
    }
  }

  // MARK: - Refusals

  /// For output.
  private(set) var refusing: [RefusedDestination] = []

  private func name(of destination: PublishDestination) -> String {
    switch destination {
    case .results: results.name
    case .retries: retries.name
    case .deadLetters: topology.deadQueue
    case .isolated: topology.isolatedQueue
    case .expansions: topology.expansionsQueue(.transactional)
    }
  }

  mutating func note(_ destination: PublishDestination, app: String?, refusedForMilliseconds: Int64?) {
    let refused = RefusedDestination(name: name(of: destination), app: app)
    refusing.removeAll { $0 == refused }
    if let refusedForMilliseconds {
      notices.add(.info, .publisher, refused.over(milliseconds: refusedForMilliseconds))
    } else {
      refusing.append(refused)
      notices.add(.warning, .publisher, refused.begun)
    }
  }

  // MARK: - Channels

  /// Returns what the channel before the present one may never have confirmed.
  mutating func renewChannel() -> BrokerEvent? {
    client.connection.flatMap { channels.renew(on: $0) }.map { .refused($0) }
  }

  // MARK: - Publishes

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.describeOutcome(apnsID, unixMilliseconds: loop.now.unixMilliseconds, metadata)
    return publish(body, to: results, routingKey: routingKey)
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.describeRetry(state, metadata)
    let delays = topology.retryDelaysSeconds
    let index = delays.firstIndex { $0 >= delaySeconds } ?? delays.count - 1
    properties.delay(seconds: delays[index])
    return publish(body, to: retries, routingKey: retryKeys[Int(jobClass.rawValue)][index])
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.describeIsolated(jobClass, firstSeen: firstSeen, metadata)
    return publish(body, to: jobs, routingKey: isolatedKey)
  }

  mutating func publishExpansion(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.describeExpansion(jobClass, firstSeen: firstSeen, metadata)
    return publish(body, to: direct, routingKey: expansionsKeys[Int(jobClass.rawValue)])
  }

  mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    properties.properties.reset()
    return publish(body, to: direct, routingKey: expansionsKeys[Int(jobClass.rawValue)])
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    properties.describeDeadLetter(jobClass, reason, detail, apnsID, metadata)
    return publish(body, to: direct, routingKey: deadKey)
  }

  /// While the connection is down a number is assigned and nothing is sent: after `.publishing` the lane repeats it.
  private mutating func publish(_ body: [UInt8], to exchange: AMQPExchange, routingKey: [UInt8]) -> UInt64 {
    let taken = channels.take()
    publishedCount += 1
    guard let connection = client.connection else { return taken }
    if exchange.isMandatory { RabbitMQPublishNumber.add(taken, to: properties.properties) }
    let number = connection.publish(
      to: exchange, channel: channels.channel, routingKey: routingKey.span,
      properties: properties.properties, body: body.span)
    assert(channels.sequence.sequence(of: number) == taken)
    return taken
  }

  /// Publishes a dead letter of an oversized job, whose body is in `source`. nil: it cannot be published now.
  mutating func publishOversized(_ tag: DeliveryTag, bodyCount: Int, from source: AMQPConnection) -> UInt64? {
    guard canPublish, let connection = client.connection else { return nil }
    var metadata = MessageMetadata()
    source.copyMetadata(into: &metadata)
    properties.describeDeadLetter(
      tag.isIsolated ? metadata.jobClass ?? tag.jobClass : tag.jobClass, "invalid",
      Limits.refusal(ofJobBytes: bodyCount), metadata.apnsID, metadata)
    let taken = channels.take()
    RabbitMQPublishNumber.add(taken, to: properties.properties)
    source.withBody {
      _ = connection.publish(
        to: direct, channel: channels.channel, routingKey: deadKey.span, properties: properties.properties, body: $0)
    }
    return taken
  }
}
