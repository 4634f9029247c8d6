import PushCore
import PushIO

/// One delivery of the request queue, from its receipt to its acknowledgement.
final class ChannelConsumerRequest {
  /// A message that must be confirmed before the delivery is acknowledged.
  struct Publish {
    enum Target: Equatable {
      /// The queue that the request names, by the default exchange.
      case reply
      case results
      case dead
      /// A copy that comes back after so many seconds.
      case retry(seconds: Int)
      /// A copy that is processed alone.
      case isolated
    }

    enum State: Equatable {
      case waiting
      /// Its number on the publisher's connection.
      case unconfirmed(UInt64)
      /// The broker gave it back: no queue takes it. Its confirm comes all the same.
      case returned(UInt64)
      case confirmed
    }

    var target: Target
    var state = State.waiting
    /// When it was published, the last time.
    var sentAt: Instant?
  }

  /// What the answer's `message_id` is.
  let answerID: String
  let epoch: UInt32
  let channel: UInt16
  let tag: UInt64
  let body: [UInt8]
  let metadata: MessageMetadata
  /// It may have been carried out before: by an earlier delivery, by one that became a dead letter, or unheard.
  var isRepeated: Bool
  /// The body was over the limit and not kept: the broker itself moves the message to the dead letters.
  let isOversized: Bool
  /// When it was enqueued, or received first, Unix milliseconds: never later than now.
  let firstSeen: Int64
  /// It was alone too often: it is not carried out any more.
  let isGivenUp: Bool
  /// nil: the request is wrong, or was not parsed.
  let job: ChannelJob?
  /// The answer, once there is one.
  private(set) var reply: (body: [UInt8], routingKey: String)?
  /// Why the original goes to the dead letters; nil: it does not.
  private(set) var deadReason: (reason: StaticString, detail: String)?
  var publishes: [Publish] = []

  /// - Parameter parsed: nil: it is put aside as it is.
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

  /// What an earlier copy carries, else the producer's timestamp, else now. What is no time of this world is not believed.
  static func firstSeen(_ metadata: MessageMetadata, now: Int64) -> Int64 {
    for time in [metadata.firstSeen, metadata.enqueuedAt] {
      if let time, time > 0, time <= now { return time }
    }
    return now
  }

  static func text(_ range: ByteRange, of metadata: MessageMetadata) -> String {
    String(decoding: metadata.bytes[range.range], as: UTF8.self)
  }

  var replyTo: String { ChannelConsumerRequest.text(metadata.replyTo, of: metadata) }

  /// The answer is there: it is to be published, and with it what was wrong.
  func answer(_ body: [UInt8], routingKey: String, dead: (reason: StaticString, detail: String)? = nil) {
    reply = (body, routingKey)
    deadReason = dead
    publishes = [Publish(target: metadata.replyTo.isEmpty ? .results : .reply)]
    if dead != nil, !isOversized { publishes.append(Publish(target: .dead)) }
  }

  /// A copy takes its place, which comes back later.
  func postpone(seconds: Int) {
    publishes = [Publish(target: .retry(seconds: seconds))]
  }

  /// A copy takes its place, which is processed alone.
  func isolate() {
    publishes = [Publish(target: .isolated)]
  }

  var isSettled: Bool { !publishes.isEmpty && publishes.allSatisfy { $0.state == .confirmed } }

  /// A publish that the broker did not settle was sent before then.
  func waits(since limit: Instant) -> Bool {
    publishes.contains { publish in
      switch publish.state {
      case .unconfirmed, .returned: publish.sentAt.map { $0 <= limit } ?? false
      case .waiting, .confirmed: false
      }
    }
  }

  /// What the broker has not settled counts as sent then.
  func restamp(_ now: Instant) {
    for index in publishes.indices where publishes[index].sentAt != nil { publishes[index].sentAt = now }
  }

  /// The publisher's connection is another one: what was not confirmed is published again.
  func publisherLost() {
    for index in publishes.indices where publishes[index].state != .confirmed { publishes[index].state = .waiting }
  }

  /// The broker settled a publish of ours. A returned answer goes to the results exchange instead, all else is published again.
  func settled(_ number: UInt64, isMultiple: Bool, isConfirmed: Bool) {
    for index in publishes.indices {
      switch publishes[index].state {
      case .unconfirmed(let own) where own == number || isMultiple && own <= number:
        publishes[index].state = isConfirmed ? .confirmed : .waiting
      case .returned(let own) where own == number || isMultiple && own <= number:
        if publishes[index].target == .reply { publishes[index].target = .results }
        publishes[index].state = .waiting
      case .waiting, .confirmed, .unconfirmed, .returned:
        break
      }
    }
  }

  /// The publish with this number came back. Returns where it was sent; nil: it is none of this request.
  func returned(_ number: UInt64) -> Publish.Target? {
    for index in publishes.indices where publishes[index].state == .unconfirmed(number) {
      publishes[index].state = .returned(number)
      return publishes[index].target
    }
    return nil
  }
}
