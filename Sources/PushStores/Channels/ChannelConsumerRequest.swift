import PushCore
import PushIO

/// One delivery of the request queue, from its receipt to its acknowledgement.
final class ChannelConsumerRequest {
  /// A message that must be confirmed before the delivery is acknowledged.
  struct Publish {
    enum Target: Equatable {
      /// The reply queue that the request names, through the default exchange.
      case reply
      case results
      case dead
      /// A copy that returns after this delay.
      case retry(seconds: Int)
      /// A copy for the queue of isolated requests.
      case isolated
    }

    enum State: Equatable {
      case waiting
      /// Its number on the publisher's connection.
      case unconfirmed(UInt64)
      /// The broker returned it: no queue takes it. Its confirm follows.
      case returned(UInt64)
      case confirmed
    }

    var target: Target
    var state = State.waiting
    /// When it was last published.
    var sentAt: Instant?
    /// By this target, one after the other.
    private(set) var refusals = 0
    /// After a refusal it is not published before this time.
    private(set) var heldUntil = Instant(nanoseconds: .min)

    init(target: Target) { self.target = target }

    /// A full reply queue is its owner's business: after this many refusals the answer goes to the results exchange.
    private static let repliesMaximum = 3
    private static let pauseMilliseconds: Int64 = 100
    private static let pauseMaximumMilliseconds: Int64 = 5_000

    /// It is an answer that its own queue refused, and will be tried there again.
    var isRefusedReply: Bool { target == .reply && refusals > 0 }

    /// The broker refused it. Other messages go on meanwhile.
    /// - Parameter triesReply: an answer is tried again in its own queue.
    mutating func refused(now: Instant, triesReply: Bool) {
      let pause = Publish.pauseMilliseconds << min(refusals, 6)
      heldUntil = now.adding(milliseconds: min(pause, Publish.pauseMaximumMilliseconds))
      refusals += 1
      state = .waiting
      if target == .reply, refusals == Publish.repliesMaximum || !triesReply { redirect() }
    }

    /// The answer's own queue does not take it.
    mutating func redirect() {
      target = .results
      refusals = 0
      heldUntil = Instant(nanoseconds: .min)
    }
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
  var publishes: [Publish] = []
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
    publishes = [Publish(target: metadata.replyTo.isEmpty ? .results : .reply)]
    if dead != nil, !isOversized { publishes.append(Publish(target: .dead)) }
  }

  /// Replaces the request by a copy that returns later.
  func postpone(seconds: Int) {
    publishes = [Publish(target: .retry(seconds: seconds))]
  }

  /// Replaces the request by an isolated copy.
  func isolate() {
    publishes = [Publish(target: .isolated)]
  }

  var isSettled: Bool { !publishes.isEmpty && publishes.allSatisfy { $0.state == .confirmed } }

  var hasRefusedReply: Bool { publishes.contains { $0.isRefusedReply } }

  /// A message was published at or before `limit`, and the broker has not settled it.
  func waits(since limit: Instant) -> Bool {
    publishes.contains { publish in
      switch publish.state {
      case .unconfirmed, .returned: publish.sentAt.map { $0 <= limit } ?? false
      case .waiting, .confirmed: false
      }
    }
  }

  /// Restarts the confirm timeout of published messages.
  func restamp(_ now: Instant) {
    for index in publishes.indices where publishes[index].sentAt != nil { publishes[index].sentAt = now }
  }

  /// The publisher has a new connection: unconfirmed messages are published again.
  func publisherLost() {
    for index in publishes.indices where publishes[index].state != .confirmed { publishes[index].state = .waiting }
  }

  /// The broker settled a message. An answer that was returned, or refused several times, goes to the results exchange instead; all others
  /// are published again.
  /// - Parameter triesReply: an answer is refused several times before that.
  func settled(_ number: UInt64, isMultiple: Bool, isConfirmed: Bool, triesReply: Bool, now: Instant) {
    for index in publishes.indices {
      switch publishes[index].state {
      case .unconfirmed(let own) where own == number || isMultiple && own <= number:
        if isConfirmed {
          publishes[index].state = .confirmed
        } else {
          publishes[index].refused(now: now, triesReply: triesReply)
        }
      case .returned(let own) where own == number || isMultiple && own <= number:
        if publishes[index].target == .reply { publishes[index].redirect() }
        publishes[index].state = .waiting
      case .waiting, .confirmed, .unconfirmed, .returned:
        break
      }
    }
  }

  /// The message with this number was returned. Returns its target; nil: it belongs to another request.
  func returned(_ number: UInt64) -> Publish.Target? {
    for index in publishes.indices where publishes[index].state == .unconfirmed(number) {
      publishes[index].state = .returned(number)
      return publishes[index].target
    }
    return nil
  }
}
