import Logging
import PushCore
import PushIO

/// A lane's consumer: its connection, the consumers of its queues, and their deliveries.
///
/// A tag's epoch counts connections, so a delivery of an old one is never taken for a new one's.
struct RabbitMQConsumer: ~Copyable {
  enum Event {
    /// The epoch is reported before the first delivery.
    case consuming(epoch: UInt32)
    /// The queues may be gone: they must be declared before they are consumed again.
    case stopped
    case delivery(Delivery)
    /// An oversized job came: the connection has its bytes, and it is reported later: at most after so long.
    case oversized(DeliveryTag, bodyCount: Int, milliseconds: Int64)
    /// Everything that RabbitMQ had sent when `beginFence` was called has been reported.
    case fenced
  }

  let client: RabbitMQClient
  private let loop: EventLoop
  private let topology: Topology
  private let consumerTag: String
  /// The epoch of the connection in use, or of the last.
  private var epoch: UInt32 = 0
  /// Between `consuming` and `stopped`.
  private(set) var isConsuming = false
  /// The connection is up, but consumes nothing before publishing is possible: each delivery without a result counts against its message.
  private var isWaiting = false
  private var isStopped = false
  /// Consumers that were requested and not confirmed.
  private var startingConsumers: Set<UInt32> = []
  private let prefetches: [(count: UInt16, channel: UInt16)]
  /// Unanswered operations of a fence.
  private var fence: Set<UInt32> = []
  var oversized = RabbitMQOversizedJobs()
  private var isOversizedReported = false

  private(set) var deliveryCount: UInt64 = 0
  private(set) var acknowledgementCount: UInt64 = 0
  private(set) var lostCount: UInt64 = 0

  /// After those of the classes.
  private static let isolatedChannel: UInt16 = 3

  init(loop: EventLoop, settings: RabbitMQSettings, notices: RabbitMQNoticeBox) {
    self.loop = loop
    topology = settings.topology
    consumerTag = settings.laneName
    prefetches = RabbitMQConsumer.prefetches(settings)
    var settings = settings
    settings.connection.oversizedBytesMaximum = Limits.deadLetterBytesMaximum
    client = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings, setUp: RabbitMQConsumer.setUp(settings)
    ) { notices.add($0, .consumer, $1) }
  }

  private static func setUp(_ settings: RabbitMQSettings) -> [(operation: AMQPOperation, channel: UInt16)] {
    prefetches(settings).flatMap { count, channel in [(.openChannel, channel), (.prefetch(count), channel)] }
  }

  private static func prefetches(_ settings: RabbitMQSettings) -> [(count: UInt16, channel: UInt16)] {
    let ofClasses = JobClass.allCases.map { jobClass in
      switch jobClass {
      case .transactional: (settings.prefetchTransactional, channel(jobClass))
      case .bulk: (settings.prefetchBulk, channel(jobClass))
      }
    }
    return ofClasses + [(1, isolatedChannel)]
  }

  private static func channel(_ jobClass: JobClass) -> UInt16 { UInt16(jobClass.rawValue) + 1 }

  private static func channel(_ tag: DeliveryTag) -> UInt16 {
    tag.isIsolated ? isolatedChannel : channel(tag.jobClass)
  }

  private var consumedQueues: [(queue: String, channel: UInt16)] {
    JobClass.allCases.map { (topology.jobsQueue($0), RabbitMQConsumer.channel($0)) }
      + [(topology.isolatedQueue, RabbitMQConsumer.isolatedChannel)]
  }

  // MARK: - Events

  /// The next event of this turn; nil once everything is reported, or nothing more is consumed now.
  mutating func nextEvent(takesDeliveries: Bool, canPublish: Bool) -> Event? {
    while let event = client.nextEvent(takesDeliveries: takesDeliveries && !oversized.isWaiting) {
      if let reported = take(event, canPublish: canPublish) { return reported }
    }
    return nil
  }

  private mutating func take(_ event: RabbitMQClient.Event, canPublish: Bool) -> Event? {
    switch event {
    case .up:
      if isStopped {
        client.stop()
        return nil
      }
      isWaiting = !canPublish
      return isWaiting ? nil : startConsumers()
    case .down:
      return ended()
    case .connection(.delivery(let delivery)):
      return take(delivery)
    case .connection(.cancelled(let channel)):
      client.fail(.consumerCancelled(channel: channel))
      return ended()
    case .connection(.completed(_, let operation, _)):
      if startingConsumers.remove(operation) != nil, startingConsumers.isEmpty { client.provedItself() }
      return fence.remove(operation) != nil && fence.isEmpty ? .fenced : nil
    case .connection(.blocked), .connection(.unblocked), .connection(.confirmed), .connection(.refused),
      .connection(.returned), .connection(.opened), .connection(.channelClosed), .connection(.closed):
      return nil
    }
  }

  private mutating func take(_ delivery: AMQPDelivery) -> Event? {
    let isIsolated = delivery.channel == RabbitMQConsumer.isolatedChannel
    // The class of an isolated job is read with its other properties.
    let number = isIsolated ? 0 : UInt8(truncatingIfNeeded: delivery.channel &- 1)
    guard let jobClass = JobClass(rawValue: number) else { return nil }
    let tag = DeliveryTag(epoch: epoch, jobClass: jobClass, value: delivery.tag, isIsolated: isIsolated)
    if delivery.isOversized, !isStopped, delivery.bodyCount <= Limits.deadLetterBytesMaximum,
      !oversized.isDecided(tag),
      let milliseconds = oversized.met(tag, bodyCount: delivery.bodyCount, now: loop.now.monotonic)
    {
      client.connection?.keep(delivery)
      return .oversized(tag, bodyCount: delivery.bodyCount, milliseconds: milliseconds)
    }
    deliveryCount += 1
    isOversizedReported = delivery.isOversized
    return .delivery(Delivery(tag: tag, bodyCount: delivery.bodyCount, isOversized: delivery.isOversized))
  }

  /// Publishing is possible: connects if it never did, and starts consumers that waited for that.
  mutating func start() -> Event? {
    if isStopped { return nil }
    client.start()
    guard isWaiting, let event = startConsumers() else { return nil }
    isWaiting = false
    return event
  }

  private mutating func startConsumers() -> Event? {
    guard let connection = client.connection else { return nil }
    epoch &+= 1
    isConsuming = true
    startingConsumers.removeAll()
    for (queue, channel) in consumedQueues {
      let consume = AMQPOperation.consume(queue: queue, consumerTag: consumerTag, arguments: [])
      startingConsumers.insert(connection.request(consume, channel: channel))
    }
    return .consuming(epoch: epoch)
  }

  /// Sets the prefetches anew, which changes nothing: the answers come behind all deliveries that RabbitMQ has sent. Reported as `fenced`.
  /// - Returns: false: nothing is consumed now.
  mutating func beginFence() -> Bool {
    guard isConsuming, startingConsumers.isEmpty, !isStopped, let connection = client.connection else { return false }
    fence = Set(prefetches.map { connection.request(.prefetch($0.count), channel: $0.channel) })
    return true
  }

  private mutating func ended() -> Event? {
    isWaiting = false
    fence.removeAll()
    guard isConsuming else { return nil }
    isConsuming = false
    oversized.consumerLost()
    lostCount += 1
    return .stopped
  }

  /// Closes the connection. Returns what must be reported.
  mutating func restart(_ reason: AMQPError) -> Event? {
    let wasConsuming = isConsuming
    client.restart(reason)
    return wasConsuming ? ended() : nil
  }

  // MARK: - Deliveries

  /// Copies the last delivery.
  func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    guard let connection = client.connection else { preconditionFailure("no delivery was reported") }
    if isOversizedReported { job.bytes.removeAll(keepingCapacity: true) } else { connection.copyBody(into: &job.bytes) }
    job.bodyCount = job.bytes.count
    connection.copyMetadata(into: &metadata)
  }

  mutating func acknowledge(_ tag: DeliveryTag, isMultiple: Bool) {
    guard let connection = connection(of: tag) else { return }
    acknowledgementCount += 1
    connection.acknowledge(tag.value, isMultiple: isMultiple, channel: RabbitMQConsumer.channel(tag))
  }

  mutating func reject(_ tag: DeliveryTag, requeue: Bool) {
    guard let connection = connection(of: tag) else { return }
    // It already has a dead letter, with the reason.
    if oversized.settled(tag), !requeue { return acknowledge(tag, isMultiple: false) }
    connection.reject(tag.value, requeue: requeue, channel: RabbitMQConsumer.channel(tag))
  }

  /// nil: the delivery is from another connection.
  private func connection(of tag: DeliveryTag) -> AMQPConnection? {
    tag.epoch == epoch && isConsuming ? client.connection : nil
  }

  /// Takes no more deliveries. The connection stays, for unsettled ones.
  mutating func stop() {
    guard !isStopped else { return }
    isStopped = true
    oversized.stopped()
    guard isConsuming, let connection = client.connection else {
      client.stop()
      return
    }
    for (_, channel) in consumedQueues {
      connection.request(.cancel(consumerTag: consumerTag), channel: channel)
    }
  }
}
