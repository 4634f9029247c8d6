package import Logging
import PushCore
package import PushIO
package import PushLane

/// Publishes messages on its own connection, each again until the broker confirms it. Declares the queues first.
///
/// Belongs to its loop's thread. A message that is published again may arrive twice.
package final class ConfirmedPublisher {
  struct Message {
    let exchange: AMQPExchange
    let routingKey: [UInt8]
    /// Adds properties and headers to empty ones.
    let describe: (AMQPProperties) -> Void
    /// Called when the broker confirmed it. false: it could not be published, and its body is not kept (see
    /// `publishOnce`).
    let then: (_ isConfirmed: Bool) -> Void
  }

  private struct Entry {
    let message: Message
    /// nil: published once; the body is not kept.
    let body: [UInt8]?
    /// Its number on the current connection; nil: to be published.
    var number: UInt64?
    var publishedAt: Instant

    func isSettled(by number: UInt64, isMultiple: Bool) -> Bool {
      guard let own = self.number else { return false }
      return own == number || isMultiple && own < number
    }
  }

  private let loop: EventLoop
  private let topology: Topology
  private let client: RabbitMQClient
  private let properties = AMQPProperties()
  /// Unconfirmed, in publishing order.
  private var entries: [Entry] = []
  private var isBlocked = false
  /// On the current connection.
  private var publishedCount: UInt64 = 0
  /// Pauses until then after a refusal.
  private var heldUntil: Instant
  private var isClosing = false

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Much longer than a broker needs, even while its queues elect a leader.
  private static let confirmMilliseconds: Int64 = 60_000

  package init(
    loop: EventLoop, settings: RabbitMQSettings, notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    topology = settings.topology
    heldUntil = loop.now.monotonic
    client = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings,
      setUp: [
        (.openChannel, ConfirmedPublisher.publishChannel), (.selectConfirms, ConfirmedPublisher.publishChannel),
        (.openChannel, ConfirmedPublisher.controlChannel),
      ] + topology.declarations.map { ($0, ConfirmedPublisher.controlChannel) }
    ) { level, text in notice(level, "rabbitmq (\(RabbitMQRole.publisher.rawValue)): \(text)") }
    client.start()
  }

  /// The queues exist.
  var isReady: Bool { client.isUp }

  func publish(_ body: [UInt8], as message: Message) {
    entries.append(Entry(message: message, body: body, number: nil, publishedAt: loop.now.monotonic))
  }

  /// Publishes a message whose body is too large to keep. If that fails at once, or would need a retry, it ends
  /// unconfirmed.
  func publishOnce(_ body: [UInt8], as message: Message) {
    guard !isPausing, let connection = client.connection else { return message.then(false) }
    let number = send(body, as: message, on: connection)
    entries.append(Entry(message: message, body: nil, number: number, publishedAt: loop.now.monotonic))
  }

  /// Drops all messages without calling back: their owners send them again.
  package func forget() { entries = [] }

  /// A queue is gone: declare it again.
  func declareAgain() {
    guard let connection = client.connection else { return }
    for operation in topology.declarations {
      connection.request(operation, channel: ConfirmedPublisher.controlChannel)
    }
  }

  /// Closes the connection. Keep turning until `isClosed`.
  package func close() {
    isClosing = true
    entries = []
    client.stop()
  }

  package var isClosed: Bool { isClosing && client.state == .idle }

  // MARK: - Turns

  /// One turn, after the loop's poll.
  package func turn() {
    while let event = client.nextEvent() { take(event) }
    missConfirms()
    dropUnkept()
    guard !isPausing, let connection = client.connection else { return }
    for index in entries.indices where entries[index].number == nil {
      guard let body = entries[index].body else { continue }
      entries[index].number = send(body, as: entries[index].message, on: connection)
      entries[index].publishedAt = loop.now.monotonic
    }
  }

  private var isPausing: Bool { isBlocked || loop.now.monotonic < heldUntil }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      client.provedItself()
      isBlocked = client.blockedReason != nil
      publishedCount = 0
      lost()
    case .down: lost()
    case .connection(.confirmed(_, let number, let isMultiple)): confirmed(number, isMultiple)
    case .connection(.refused(_, let number, let isMultiple)):
      pause()
      for index in entries.indices where entries[index].isSettled(by: number, isMultiple: isMultiple) {
        entries[index].number = nil
      }
    case .connection(.returned):
      guard let connection = client.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
        break
      }
      // Its confirm still follows, and matches nothing.
      for index in entries.indices where entries[index].number == number { entries[index].number = nil }
      declareAgain()
      pause()
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      // The broker read nothing while it blocked us: confirm timeouts start now.
      for index in entries.indices { entries[index].publishedAt = loop.now.monotonic }
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func confirmed(_ number: UInt64, _ isMultiple: Bool) {
    let settled = entries.filter { $0.isSettled(by: number, isMultiple: isMultiple) }
    entries.removeAll { $0.isSettled(by: number, isMultiple: isMultiple) }
    for entry in settled { entry.message.then(true) }
  }

  private func pause() {
    heldUntil = loop.now.monotonic.adding(milliseconds: ConfirmedPublisher.refusedPauseMilliseconds)
  }

  private func lost() { for index in entries.indices { entries[index].number = nil } }

  private func dropUnkept() {
    guard entries.contains(where: { $0.body == nil && $0.number == nil }) else { return }
    let dropped = entries.filter { $0.body == nil && $0.number == nil }
    entries.removeAll { $0.body == nil && $0.number == nil }
    for entry in dropped { entry.message.then(false) }
  }

  /// A confirm that is this late is lost: without a new connection its message would wait forever.
  private func missConfirms() {
    let milliseconds = ConfirmedPublisher.confirmMilliseconds
    let limit = loop.now.monotonic.adding(milliseconds: -milliseconds)
    guard client.isUp, !isBlocked, entries.contains(where: { $0.number != nil && $0.publishedAt <= limit }) else {
      return
    }
    client.fail(.timedOut(operation: "the confirm of a message", milliseconds: milliseconds))
    lost()
  }

  private func send(_ body: [UInt8], as message: Message, on connection: AMQPConnection) -> UInt64 {
    properties.reset()
    message.describe(properties)
    publishedCount += 1
    RabbitMQPublishNumber.add(publishedCount, to: properties)
    let number = connection.publish(
      to: message.exchange, channel: ConfirmedPublisher.publishChannel, routingKey: message.routingKey.span,
      properties: properties, body: body.span)
    assert(number == publishedCount)
    return number
  }
}
