import Logging
import PushCore
import PushIO
import PushLane

/// The registration consumer's connection for publishing: declares the queues, and has dead letters confirmed.
final class RegistrationDeadLetters {
  private let loop: EventLoop
  private let topology: Topology
  private let publisher: RabbitMQClient
  private let exchange: AMQPExchange
  private let properties = AMQPProperties()
  /// Not confirmed, in their order.
  private var waiting: [RegistrationDelivery] = []
  private var isBlocked = false
  /// On the connection in use.
  private var publishedCount: UInt64 = 0
  private var heldUntil: Instant
  private var isClosing = false

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Much longer than a broker takes, also one whose queues look for a leader.
  private static let confirmMilliseconds: Int64 = 60_000

  init(loop: EventLoop, settings: RabbitMQSettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    topology = settings.topology
    exchange = AMQPExchange(topology.deadExchange, isMandatory: true)
    heldUntil = loop.now.monotonic
    publisher = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings,
      setUp: [
        (.openChannel, RegistrationDeadLetters.publishChannel),
        (.selectConfirms, RegistrationDeadLetters.publishChannel),
        (.openChannel, RegistrationDeadLetters.controlChannel),
      ] + topology.declarations.map { ($0, RegistrationDeadLetters.controlChannel) }
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.publisher.rawValue)): \(text)") }
    publisher.start()
  }

  /// The queues exist.
  var isReady: Bool { publisher.isUp }

  /// Has a dead letter made of a delivery.
  /// - Parameter connection: the one whose last event it is: a body that is not kept is read there.
  func publish(_ delivery: RegistrationDelivery, lastOf connection: AMQPConnection?) {
    waiting.append(delivery)
    guard delivery.isOversized, let connection, let own = publisher.connection, !isPausing else { return }
    var body: [UInt8] = []
    connection.copyBody(into: &body)
    publish(delivery, body, on: own)
  }

  /// The deliveries come again.
  func forget() { waiting = [] }

  /// The queue is gone: it is declared before it is consumed again.
  func declareAgain() {
    guard let connection = publisher.connection else { return }
    for operation in topology.declarations {
      connection.request(operation, channel: RegistrationDeadLetters.controlChannel)
    }
  }

  func close() {
    isClosing = true
    waiting = []
    publisher.stop()
  }

  var isClosed: Bool { isClosing && publisher.state == .idle }

  // MARK: - Turns

  /// One turn, after the loop's poll. `end` hears of deliveries whose dead letter is confirmed, and of those that cannot have one now.
  func turn(end: (_ delivery: RegistrationDelivery, _ isConfirmed: Bool) -> Void) {
    while let event = publisher.nextEvent() { take(event, end) }
    missConfirms()
    guard !isPausing, let connection = publisher.connection else { return }
    for delivery in waiting where delivery.published == nil && !delivery.isOversized {
      publish(delivery, delivery.body, on: connection)
    }
    // Their bodies are gone: they come again.
    for delivery in waiting where delivery.published == nil { end(delivery, false) }
    waiting.removeAll { $0.published == nil }
  }

  private var isPausing: Bool { isBlocked || loop.now.monotonic < heldUntil }

  private func take(_ event: RabbitMQClient.Event, _ end: (RegistrationDelivery, Bool) -> Void) {
    switch event {
    case .up:
      publisher.provedItself()
      isBlocked = publisher.blockedReason != nil
      publishedCount = 0
      lost()
    case .down: lost()
    case .connection(.confirmed(_, let number, let isMultiple)):
      var left: [RegistrationDelivery] = []
      for delivery in waiting {
        if isSettled(delivery, number, isMultiple) { end(delivery, true) } else { left.append(delivery) }
      }
      waiting = left
    case .connection(.refused(_, let number, let isMultiple)):
      pause()
      for delivery in waiting where isSettled(delivery, number, isMultiple) { delivery.published = nil }
    case .connection(.returned):
      guard let connection = publisher.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
        break
      }
      // Its confirm comes all the same, and finds nothing.
      for delivery in waiting where delivery.published == number { delivery.published = nil }
      declareAgain()
      pause()
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      // The broker read nothing meanwhile: what it owes a confirm of counts from now on.
      for delivery in waiting where delivery.published != nil { delivery.publishedAt = loop.now.monotonic }
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func pause() {
    heldUntil = loop.now.monotonic.adding(milliseconds: RegistrationDeadLetters.refusedPauseMilliseconds)
  }

  private func isSettled(_ delivery: RegistrationDelivery, _ number: UInt64, _ isMultiple: Bool) -> Bool {
    guard let own = delivery.published else { return false }
    return own == number || isMultiple && own <= number
  }

  private func lost() { for delivery in waiting { delivery.published = nil } }

  /// A confirm that does not come for so long is lost, and its delivery would wait for ever.
  private func missConfirms() {
    let milliseconds = RegistrationDeadLetters.confirmMilliseconds
    let limit = loop.now.monotonic.adding(milliseconds: -milliseconds)
    let isMissed = waiting.contains { delivery in
      delivery.published != nil && delivery.publishedAt.map { $0 <= limit } ?? false
    }
    guard publisher.isUp, !isBlocked, isMissed else { return }
    publisher.fail(.timedOut(operation: "the confirm of a dead letter", milliseconds: milliseconds))
    lost()
  }

  private func publish(_ delivery: RegistrationDelivery, _ body: [UInt8], on connection: AMQPConnection) {
    guard let refusal = delivery.refusal else { preconditionFailure("it was not refused") }
    let metadata = delivery.metadata
    properties.reset()
    if !metadata.messageID.isEmpty { properties.setMessageID(metadata.bytes.span.extracting(metadata.messageID.range)) }
    if let enqueuedAt = metadata.enqueuedAt { properties.setTimestamp(unixMilliseconds: enqueuedAt) }
    properties.addHeader("x-herald-reason", literal: refusal.reason.word)
    properties.addHeader("x-herald-detail", refusal.detail)
    properties.addHeader("x-herald-class", literal: "registrations")
    publishedCount += 1
    RabbitMQPublishNumber.add(publishedCount, to: properties)
    delivery.published = connection.publish(
      to: exchange, channel: RegistrationDeadLetters.publishChannel, routingKey: "".utf8.span, properties: properties,
      body: body.span)
    delivery.publishedAt = loop.now.monotonic
  }
}
