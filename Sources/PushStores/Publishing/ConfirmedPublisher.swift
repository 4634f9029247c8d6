package import Logging
import PushCore
package import PushIO
package import PushLane

/// Publishes messages on its own connection, each again until the broker confirms it, except those of `publishOnce`. Declares the queues
/// first.
///
/// For the loop's thread only. A message that is published again may arrive twice.
package final class ConfirmedPublisher {
  /// A message, and the callback for its confirm.
  package struct Message {
    let exchange: AMQPExchange
    let routingKey: [UInt8]
    /// Adds properties and headers to empty ones.
    let describe: (AMQPProperties) -> Void
    /// Called when the broker confirmed it. false: it could not be published, and its body is not kept (see `publishOnce`).
    let then: (_ isConfirmed: Bool) -> Void

    package init(
      exchange: AMQPExchange, routingKey: [UInt8], describe: @escaping (AMQPProperties) -> Void,
      then: @escaping (_ isConfirmed: Bool) -> Void
    ) {
      self.exchange = exchange
      self.routingKey = routingKey
      self.describe = describe
      self.then = then
    }
  }

  private struct Entry {
    let message: Message
    /// nil: published once; the body is not kept.
    let body: [UInt8]?
    /// On the current connection.
    var publishedAt = Instant(nanoseconds: .min)
  }

  private let loop: EventLoop
  private let topology: Topology
  private let client: RabbitMQClient
  private let properties = AMQPProperties()
  private let confirmMilliseconds: Int64
  /// To be published, in publishing order.
  private var waiting: [Entry] = []
  /// Published on the current connection and not confirmed, by publish number.
  private var sent: [UInt64: Entry] = [:]
  /// A lower bound of the numbers in `sent`.
  private var oldest: UInt64 = 1
  package private(set) var isBlocked = false
  /// The broker read nothing before this time: confirm timeouts start no earlier.
  private var readsSince = Instant(nanoseconds: .min)
  /// On the current connection.
  private var publishedCount: UInt64 = 0
  /// Pauses until then after a refusal.
  private var heldUntil: Instant
  /// Queues are not declared again before this time.
  private var nextDeclaration = Instant(nanoseconds: .min)
  private var isClosing = false

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Minimum time between two declarations.
  private static let declarationMilliseconds: Int64 = 1_000
  /// Much longer than a broker needs, even while its queues elect a leader.
  package static let confirmMilliseconds: Int64 = 60_000

  package init(
    loop: EventLoop, settings: RabbitMQSettings,
    confirmMilliseconds: Int64 = ConfirmedPublisher.confirmMilliseconds,
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.confirmMilliseconds = confirmMilliseconds
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
  package var isReady: Bool { client.isUp }

  /// Published and not confirmed.
  package var unconfirmedCount: Int { sent.count }

  /// Bytes that the broker has not read yet.
  package var unsentBytes: Int { client.connection?.outboundCount ?? 0 }

  func publish(_ body: [UInt8], as message: Message) {
    waiting.append(Entry(message: message, body: body))
  }

  /// Publishes a message whose body is not kept, because it is too large or the caller can send it again. If that fails at once, or would
  /// need a retry, it ends unconfirmed.
  package func publishOnce(_ body: [UInt8], as message: Message) {
    guard !isBlocked, let connection = client.connection else { return message.then(false) }
    send(Entry(message: message, body: nil), body, on: connection)
  }

  /// Drops all messages without calling back: their owners send them again.
  package func forget() {
    waiting = []
    sent = [:]
  }

  /// A queue is gone: declare it again.
  func declareAgain() {
    let now = loop.now.monotonic
    guard nextDeclaration <= now, let connection = client.connection else { return }
    nextDeclaration = now.adding(milliseconds: ConfirmedPublisher.declarationMilliseconds)
    for operation in topology.declarations {
      connection.request(operation, channel: ConfirmedPublisher.controlChannel)
    }
  }

  /// Closes the connection. Keep turning until `isClosed`.
  package func close() {
    isClosing = true
    forget()
    client.stop()
  }

  package var isClosed: Bool { isClosing && client.state == .idle }

  // MARK: - Turns

  /// One turn, after the loop's poll.
  package func turn() {
    while let event = client.nextEvent() { take(event) }
    missConfirms()
    guard !waiting.isEmpty, !isBlocked, heldUntil <= loop.now.monotonic, let connection = client.connection else {
      return
    }
    let entries = waiting
    waiting = []
    for entry in entries {
      guard let body = entry.body else { preconditionFailure("what waits was kept") }
      send(entry, body, on: connection)
    }
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      client.provedItself()
      isBlocked = client.blockedReason != nil
      lost()
    case .down: lost()
    case .connection(.confirmed(_, let number, let isMultiple)):
      for entry in settled(by: number, isMultiple: isMultiple) { entry.message.then(true) }
    case .connection(.refused(_, let number, let isMultiple)):
      again(settled(by: number, isMultiple: isMultiple))
    case .connection(.returned):
      guard let connection = client.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
        break
      }
      declareAgain()
      // Its confirm still follows, and matches nothing.
      if let entry = sent.removeValue(forKey: number) { again([entry]) }
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      readsSince = loop.now.monotonic
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  /// Removes the messages that a confirm or a refusal covers.
  private func settled(by number: UInt64, isMultiple: Bool) -> [Entry] {
    guard number <= publishedCount else { return [] }
    var entries: [Entry] = []
    for number in (isMultiple ? min(oldest, number) : number)...number {
      if let entry = sent.removeValue(forKey: number) { entries.append(entry) }
    }
    return entries
  }

  /// The broker refused or returned these. Those that are kept are published again after a pause.
  private func again(_ entries: [Entry]) {
    let kept = entries.filter { $0.body != nil }
    if !kept.isEmpty {
      waiting += kept
      heldUntil = loop.now.monotonic.adding(milliseconds: ConfirmedPublisher.refusedPauseMilliseconds)
    }
    for entry in entries where entry.body == nil { entry.message.then(false) }
  }

  /// The connection was lost: unconfirmed messages are published again on the next one.
  private func lost() {
    let entries = sent.sorted { $0.key < $1.key }.map(\.value)
    sent = [:]
    publishedCount = 0
    oldest = 1
    waiting = entries.filter { $0.body != nil } + waiting
    for entry in entries where entry.body == nil { entry.message.then(false) }
  }

  /// Without a confirm for so long, the connection is replaced: its message would wait for ever.
  private func missConfirms() {
    while oldest <= publishedCount, sent[oldest] == nil { oldest += 1 }
    guard client.isUp, !isBlocked, let entry = sent[oldest] else { return }
    let due = max(entry.publishedAt, readsSince).adding(milliseconds: confirmMilliseconds)
    guard due <= loop.now.monotonic else { return }
    client.fail(.timedOut(operation: "the confirm of a message", milliseconds: confirmMilliseconds))
    lost()
  }

  private func send(_ entry: Entry, _ body: [UInt8], on connection: AMQPConnection) {
    properties.reset()
    entry.message.describe(properties)
    publishedCount += 1
    RabbitMQPublishNumber.add(publishedCount, to: properties)
    let number = connection.publish(
      to: entry.message.exchange, channel: ConfirmedPublisher.publishChannel,
      routingKey: entry.message.routingKey.span, properties: properties, body: body.span)
    assert(number == publishedCount)
    var entry = entry
    entry.publishedAt = loop.now.monotonic
    sent[number] = entry
  }
}
