import PushCore
import PushIO

/// One delivery of the request queue, from its receipt to its acknowledgement.
final class ChannelConsumerRequest {
  /// A message that must be confirmed before the delivery is acknowledged.
  enum Target {
    /// The reply queue that the request names, through the default exchange.
    case reply
    case results
    case dead
    /// A copy that returns after this delay.
    case retry(seconds: Int)
    /// A copy for the queue of isolated requests.
    case isolated
  }

  /// The answer's `message_id`.
  let answerID: String
  let epoch: UInt32
  let channel: UInt16
  let tag: UInt64
  let body: [UInt8]
  let metadata: MessageMetadata
  /// It may have been carried out before: by an earlier delivery, before it became a dead letter, or by a request whose
  /// answer was lost.
  var isRepeated: Bool
  /// The body exceeded the limit and was not kept: the broker itself dead-letters the message.
  let isOversized: Bool
  /// Its dead letter was refused: the broker itself dead-letters the message.
  var isLeftToBroker = false
  /// When it was enqueued or first received, Unix milliseconds; never later than now.
  let firstSeen: Int64
  /// Isolated too often: it is not carried out any more.
  let isGivenUp: Bool
  /// nil: the request is invalid, or was not parsed.
  let job: ChannelJob?
  /// The answer, once there is one.
  private(set) var reply: (body: [UInt8], routingKey: String)?
  /// Why the original becomes a dead letter; nil: it does not.
  private(set) var deadReason: (reason: StaticString, detail: String)?
  /// Where to publish what answers or replaces it.
  private var targets: [Target] = []
  private var unconfirmedCount = 0
  /// How often its own queue refused its answer, which will be tried there again; 0: none is.
  var refusals = 0
  /// How often the connection ended before its answer was confirmed.
  var losses = 0
  /// Whose share it takes while it is in progress; nil: nobody's.
  var pool: ChannelPoolID?
  /// It has not begun: it waits for its pool's share.
  var isWaiting = false

  /// - Parameter parsed: nil: it is isolated or postponed unparsed.
  init(
    _ delivery: AMQPDelivery, epoch: UInt32, body: [UInt8], metadata: MessageMetadata,
    parsed: Result<ChannelJob, ChannelJobFault>?, isGivenUp: Bool, now: Int64
  ) {
    let fallbackID = ChannelConsumerRequest.text(metadata.messageID, of: metadata)
    switch parsed {
    case .success(let job):
      self.job = job
      answerID = job.id
    case .failure(let fault):
      job = nil
      answerID = fault.id ?? fallbackID
    case nil:
      job = nil
      answerID = fallbackID
    }
    self.epoch = epoch
    channel = delivery.channel
    tag = delivery.tag
    self.body = body
    self.metadata = metadata
    isRepeated = delivery.isRedelivered || metadata.deliveryCount > 0 || metadata.isAmbiguous
    isOversized = delivery.isOversized
    self.isGivenUp = isGivenUp
    firstSeen = ChannelConsumerRequest.firstSeen(metadata, now: now)
  }

  /// The time in an earlier copy, else the producer's timestamp, else now. Times before 1970 or in the future are
  /// ignored.
  static func firstSeen(_ metadata: MessageMetadata, now: Int64) -> Int64 {
    for time in [metadata.firstSeen, metadata.enqueuedAt] {
      if let time, time > 0, time <= now { return time }
    }
    return now
  }

  /// Empty if it is not UTF-8.
  static func text(_ range: ByteRange, of metadata: MessageMetadata) -> String {
    let bytes = metadata.bytes[range.range]
    return UTF8Check.isValid(bytes.span) ? String(decoding: bytes, as: UTF8.self) : ""
  }

  var replyTo: String { ChannelConsumerRequest.text(metadata.replyTo, of: metadata) }

  /// Sets the answer to publish and, for a failed request, the reason of its dead letter.
  func answer(_ body: [UInt8], routingKey: String, dead: (reason: StaticString, detail: String)? = nil) {
    reply = (body, routingKey)
    deadReason = dead
    end(by: [metadata.replyTo.isEmpty ? .results : .reply] + (dead != nil && !isOversized ? [.dead] : []))
  }

  /// Replaces the request by a copy that returns later.
  func postpone(seconds: Int) {
    end(by: [.retry(seconds: seconds)])
  }

  /// Replaces the request by an isolated copy.
  func isolate() {
    end(by: [.isolated])
  }

  private func end(by targets: [Target]) {
    self.targets = targets
    unconfirmedCount = targets.count
  }

  /// It is answered or replaced, as soon as the broker confirms that.
  var isEnding: Bool { unconfirmedCount > 0 }

  /// Where to publish now.
  func takeTargets() -> [Target] {
    guard !targets.isEmpty else { return [] }
    defer { targets = [] }
    return targets
  }

  /// The broker has one of its messages. true: it has all.
  func confirmed() -> Bool {
    unconfirmedCount -= 1
    return unconfirmedCount == 0
  }
}
