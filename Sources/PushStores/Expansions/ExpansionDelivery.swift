import PushCore

/// One message of an expansion queue, from its receipt to its acknowledgement: a step of an audience, or the outcomes
/// of a page's devices.
final class ExpansionDelivery {
  /// A message that must be confirmed before the delivery continues.
  struct Publish {
    enum Target {
      case page(JobClass, id: [UInt8])
      case step(ExpansionCursor)
      case outcome(routingKey: [UInt8], apnsID: UUIDValue)
      /// The original message, as a dead letter.
      /// - Parameter reason: `invalid` or `failed`.
      case deadLetter(reason: StaticString, detail: String)
      /// A copy that returns after this delay.
      /// - Parameter deliveries: see `RabbitMQPublishProperties.describeExpansion`.
      case retry(seconds: Int, deliveries: UInt32 = 0)
      /// The push of the newest state to one device.
      case latePage(id: [UInt8], apnsID: UUIDValue)
      /// A request to the channel consumers.
      case channelRequest(id: String)
    }

    var target: Target
    var body: [UInt8]
    /// The source of its properties.
    var metadata: MessageMetadata
    /// A copy of it may have been published before.
    var isRepeated = false
  }

  let epoch: UInt32
  /// The class of the queue that gave it, which has the same share of the work whatever is in it.
  let queue: JobClass
  let tag: UInt64
  let body: [UInt8]
  let metadata: MessageMetadata
  /// The cursor of a step; nil: the message has none, or an invalid one.
  let cursor: ExpansionCursor?
  /// The class of its job, to whose queues its copies and steps go.
  let jobClass: JobClass
  /// When it was first received, Unix milliseconds; never later than now.
  let firstSeen: Int64
  /// Deliveries of it, and of the messages that it is a copy of, none of which finished it.
  let unfinishedDeliveries: UInt32
  /// Whose share it takes while it is in progress; nil: nobody's.
  var app: ByteText?
  /// The first ordinal that its step looks up.
  var ordinal: UInt32 = 0
  /// A broadcast of its job's is counted with the pages.
  var expectsBroadcast = false
  /// To be published.
  private var publishes: [Publish] = []
  private var unconfirmedCount = 0
  private var then: (() -> Void)?
  private var orElse: (() -> Void)?
  private var isOutcomeRefused = false
  private(set) var isFinished = false
  /// Its dead letter was refused: the broker itself dead-letters it, once it is finished.
  private(set) var isLeftToBroker = false
  /// Its connection is gone: it will be redelivered.
  var isGone = false {
    didSet {
      // The continuation holds a reference to the delivery.
      publishes = []
      (then, orElse) = (nil, nil)
    }
  }

  init(
    epoch: UInt32, queue: JobClass, tag: UInt64, body: [UInt8], metadata: MessageMetadata, cursor: ExpansionCursor?,
    now: Int64
  ) {
    self.epoch = epoch
    self.queue = queue
    self.tag = tag
    self.body = body
    self.metadata = metadata
    self.cursor = cursor
    jobClass = metadata.jobClass ?? queue
    let (count, isTooMany) = metadata.carriedDeliveries.addingReportingOverflow(metadata.deliveryCount)
    unfinishedDeliveries = isTooMany ? .max : count
    firstSeen = [metadata.firstSeen, metadata.enqueuedAt].compactMap { $0 }.first { $0 > 0 && $0 <= now } ?? now
  }

  /// Its job's point in the order, Unix microseconds; 0: the lane did not know the time.
  var point: Int64 { metadata.order ?? firstSeen &* 1_000 }

  /// An update that a lane handed over is as new as its point, wherever it was held up since. An end that waited gives way to nothing that
  /// may be older: what shows an activity for ever is worse than a state too few.
  /// - Parameter now: Unix milliseconds; nil: Redis has not told its time.
  func order(of sequence: Int64?, isEnd: Bool, now: Int64?) -> JobOrder {
    let hasWaited = metadata.isReturning || metadata.startWaits > 0 || metadata.deliveryCount > 0
    let way: JobOrder.Way =
      if metadata.isReplay || hasWaited && !isEnd {
        .returning
      } else if isEnd {
        hasWaited && metadata.timestamp == nil ? .made : .first
      } else {
        metadata.order == nil ? .first : .made
      }
    return JobOrder(
      sequence: sequence, timestamp: metadata.timestamp, point: point > 0 ? point : (now ?? 0) &* 1_000, way: way)
  }

  /// Publishes these messages, and calls `then` once all are confirmed.
  /// - Parameter orElse: called instead if an outcome among them was refused for long: others' deliveries must not wait for that.
  func publish(_ publishes: [Publish], orElse: (() -> Void)? = nil, then: @escaping () -> Void) {
    precondition(self.then == nil && !isFinished, "one thing at a time is published of a delivery")
    if publishes.isEmpty { return then() }
    self.publishes = publishes
    unconfirmedCount = publishes.count
    (self.then, self.orElse, isOutcomeRefused) = (then, orElse, false)
  }

  /// What is to be published now.
  func takePublishes() -> [Publish] {
    guard !publishes.isEmpty else { return [] }
    defer { publishes = [] }
    return publishes
  }

  /// The broker has one of them, or will not have it.
  func ended(_ publish: Publish, isConfirmed: Bool) {
    unconfirmedCount -= 1
    if isConfirmed { return }
    if case .outcome = publish.target { isOutcomeRefused = true } else { isLeftToBroker = true }
  }

  /// Nothing is left to do: acknowledge it.
  func finish() { isFinished = true }

  /// Continues if all its messages have ended.
  func advance() {
    guard unconfirmedCount == 0, let next = isOutcomeRefused ? orElse : then else { return }
    (then, orElse) = (nil, nil)
    next()
  }
}
