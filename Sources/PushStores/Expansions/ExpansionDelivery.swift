import PushCore

/// One message of the expansion queue, from its receipt to its acknowledgement: a step of an audience, or how devices of a page ended.
final class ExpansionDelivery {
  /// A message that must be confirmed before the delivery goes on.
  struct Publish {
    enum Target: Equatable {
      case page(JobClass, id: [UInt8])
      case step(ExpansionCursor)
      case outcome(routingKey: [UInt8], apnsID: UUIDValue)
      /// The message itself, as a dead letter.
      case invalid(detail: String)
      /// A copy that comes back after so many seconds.
      case retry(seconds: Int)
      /// A request to the channel consumers.
      case channelRequest(id: String)
    }

    enum State: Equatable {
      case waiting
      /// Its number on the publisher's connection.
      case unconfirmed(UInt64)
      case confirmed
    }

    var target: Target
    var body: [UInt8]
    /// Of what its properties are.
    var metadata: MessageMetadata
    /// A copy of it may have been published before.
    var isRepeated = false
    var state = State.waiting
    /// When it was published, the last time.
    var sentAt: Instant?

    /// What the broker did not confirm it may have kept all the same.
    var mayBeRepeated: Bool { isRepeated || sentAt != nil }
  }

  let epoch: UInt32
  let tag: UInt64
  let body: [UInt8]
  let metadata: MessageMetadata
  /// Of a step; nil where the message says none, or none that a step writes.
  let cursor: ExpansionCursor?
  let jobClass: JobClass
  /// When it was received first, Unix milliseconds: never later than now.
  let firstSeen: Int64
  private(set) var publishes: [Publish] = []
  private var then: (() -> Void)?
  private(set) var isFinished = false
  /// Its connection is gone: whoever gets it next does it again.
  var isGone = false {
    didSet {
      // What would come next holds the delivery.
      publishes = []
      then = nil
    }
  }

  init(
    epoch: UInt32, tag: UInt64, body: [UInt8], metadata: MessageMetadata, cursor: ExpansionCursor?, now: Int64
  ) {
    self.epoch = epoch
    self.tag = tag
    self.body = body
    self.metadata = metadata
    self.cursor = cursor
    jobClass = metadata.jobClass ?? .transactional
    firstSeen = [metadata.firstSeen, metadata.enqueuedAt].compactMap { $0 }.first { $0 > 0 && $0 <= now } ?? now
  }

  /// Publishes these, and goes on once all are confirmed.
  func publish(_ publishes: [Publish], then: @escaping () -> Void) {
    precondition(self.publishes.isEmpty && !isFinished, "one thing at a time is published of a delivery")
    if publishes.isEmpty { return then() }
    self.publishes = publishes
    self.then = then
  }

  /// Nothing is left to do: it is acknowledged.
  func finish() { isFinished = true }

  /// All that it publishes is confirmed: it goes on.
  func advance() {
    guard !publishes.isEmpty, publishes.allSatisfy({ $0.state == .confirmed }) else { return }
    publishes = []
    let next = then
    then = nil
    next?()
  }

  func sent(_ index: Int, number: UInt64, at now: Instant) {
    publishes[index].state = .unconfirmed(number)
    publishes[index].sentAt = now
  }

  /// The broker settled a publish of ours; one that it did not take is published again.
  func settled(_ number: UInt64, isMultiple: Bool, isConfirmed: Bool) {
    for index in publishes.indices {
      guard case .unconfirmed(let own) = publishes[index].state, own == number || isMultiple && own <= number else {
        continue
      }
      publishes[index].state = isConfirmed ? .confirmed : .waiting
    }
  }

  /// No queue took it. true: it is of this delivery, and published again.
  func cameBack(_ number: UInt64) -> Bool {
    guard let index = publishes.firstIndex(where: { $0.state == .unconfirmed(number) }) else { return false }
    publishes[index].state = .waiting
    return true
  }

  /// The publisher's connection is another one: what was not confirmed is published again.
  func publisherLost() {
    for index in publishes.indices where publishes[index].state != .confirmed { publishes[index].state = .waiting }
  }

  /// A publish that the broker did not settle was sent before then.
  func waits(since limit: Instant) -> Bool {
    publishes.contains { publish in
      if case .unconfirmed = publish.state { publish.sentAt.map { $0 <= limit } ?? false } else { false }
    }
  }

  /// What the broker has not settled counts as sent then.
  func restamp(_ now: Instant) {
    for index in publishes.indices where publishes[index].sentAt != nil { publishes[index].sentAt = now }
  }
}
