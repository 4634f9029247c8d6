import PushCore
import PushIO

/// One delivery of the request queue, from its receipt to its acknowledgement.
final class ChannelDeskRequest {
  /// A message that must be confirmed before the delivery is acknowledged.
  struct Publish {
    enum Target {
      /// The queue that the request names, by the default exchange.
      case reply
      case results
      case dead
    }

    enum State: Equatable {
      case waiting
      /// Its number on the publisher's connection.
      case unconfirmed(UInt64)
      /// The broker gave it back: no such queue. Its confirm comes all the same.
      case returned(UInt64)
      case confirmed
    }

    var target: Target
    var state = State.waiting
  }

  /// What the answer's `message_id` is.
  let answerID: String
  let epoch: UInt32
  let tag: UInt64
  let body: [UInt8]
  let metadata: MessageMetadata
  /// It may have been carried out before: by an earlier delivery, by one that became a dead letter, or unheard.
  var isRepeated: Bool
  /// The body was over the limit and not kept: the broker itself moves the message to the dead letters.
  let isOversized: Bool
  let received: Instant
  /// nil: the request is wrong.
  let job: ChannelJob?
  var backoff = Backoff(initialMilliseconds: 250, maximumMilliseconds: 10_000)
  /// The answer, once there is one.
  private(set) var reply: (body: [UInt8], routingKey: String)?
  /// Why the original goes to the dead letters; nil: it does not.
  private(set) var deadReason: (reason: StaticString, detail: String)?
  var publishes: [Publish] = []

  init(
    answerID: String, epoch: UInt32, tag: UInt64, body: [UInt8], metadata: MessageMetadata, isRepeated: Bool,
    isOversized: Bool, received: Instant, job: ChannelJob?
  ) {
    self.answerID = answerID
    self.epoch = epoch
    self.tag = tag
    self.body = body
    self.metadata = metadata
    self.isRepeated = isRepeated
    self.isOversized = isOversized
    self.received = received
    self.job = job
  }

  static func text(_ range: ByteRange, of metadata: MessageMetadata) -> String {
    String(decoding: metadata.bytes[range.range], as: UTF8.self)
  }

  var replyTo: String { ChannelDeskRequest.text(metadata.replyTo, of: metadata) }

  /// The answer is there: it is to be published, and with it what was wrong.
  func answer(_ body: [UInt8], routingKey: String, dead: (reason: StaticString, detail: String)? = nil) {
    reply = (body, routingKey)
    deadReason = dead
    publishes = [Publish(target: metadata.replyTo.isEmpty ? .results : .reply)]
    if dead != nil, !isOversized { publishes.append(Publish(target: .dead)) }
  }

  var isSettled: Bool { !publishes.isEmpty && publishes.allSatisfy { $0.state == .confirmed } }

  /// The publisher's connection is another one: what was not confirmed is told again.
  func publisherLost() {
    for index in publishes.indices where publishes[index].state != .confirmed { publishes[index].state = .waiting }
  }

  /// The broker settled a publish of ours. A returned answer goes to the results exchange instead.
  func settled(_ number: UInt64, isMultiple: Bool, isConfirmed: Bool) {
    for index in publishes.indices {
      switch publishes[index].state {
      case .unconfirmed(let own) where own == number || isMultiple && own <= number:
        publishes[index].state = isConfirmed ? .confirmed : .waiting
      case .returned(let own) where own == number || isMultiple && own <= number:
        publishes[index].target = .results
        publishes[index].state = .waiting
      case .waiting, .confirmed, .unconfirmed, .returned:
        break
      }
    }
  }

  /// A message came back; true: it is this answer.
  func returned(routingKey: String, messageID: String) -> Bool {
    guard replyTo == routingKey, answerID == messageID else { return false }
    for index in publishes.indices {
      if publishes[index].target == .reply, case .unconfirmed(let number) = publishes[index].state {
        publishes[index].state = .returned(number)
        return true
      }
    }
    return false
  }
}
