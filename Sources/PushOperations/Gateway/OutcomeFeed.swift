import Logging
import PushCore
import PushIO
import PushLane

/// Delivers outcomes from the results log to readers: one connection, and a channel for each reader. Used only on its loop's thread.
///
/// A reader has at most `prefetch` unacknowledged outcomes. When the connection ends, all readers end: their clients reconnect with the id
/// of the last event.
final class OutcomeFeed {
  /// A client that reads outcomes.
  struct Reader {
    var scope: AppScope
    /// The first offset to deliver; nil: only new outcomes.
    var from: Int64?
    var events: OutcomeReader
  }

  private struct Open {
    var reader: Reader
    let number: UInt64
    /// The operation that consumes. Once RabbitMQ answers it, no outcome is missed.
    var consume: UInt32
    var lastEventAt: Instant
  }

  private enum Channel {
    case reading(Open)
    /// Until RabbitMQ answers this close operation.
    case closing(UInt32)
  }

  private let loop: EventLoop
  private let queue: String
  private let client: RabbitMQClient
  private let readersMaximum: Int
  private var channels: [UInt16: Channel] = [:]
  /// Readers that wait for the connection.
  private var waiting: [(reader: Reader, deadline: Instant)] = []
  private var isStarted = false
  private var lastNumber: UInt64 = 0

  private static let firstChannel: UInt16 = 2
  private static let prefetch: UInt16 = 200
  private static let keepAliveMilliseconds: Int64 = 15_000
  private static let waitMilliseconds: Int64 = 5_000

  init(loop: EventLoop, settings: GatewaySettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    readersMaximum = settings.readersMaximum
    queue = settings.rabbitmq.topology.resultsLogQueue
    var rabbitmq = settings.rabbitmq
    rabbitmq.connection.channelCount = OutcomeFeed.firstChannel + UInt16(settings.readersMaximum)
    client = RabbitMQClient(loop: loop, role: .consumer, settings: rabbitmq, setUp: [(.openChannel, 1)]) {
      notice($0, "rabbitmq (outcomes): \($1)")
    }
  }

  var readerCount: Int { channels.count + waiting.count }

  /// Adds a reader. false: there are too many.
  func add(_ reader: Reader) -> Bool {
    guard readerCount < readersMaximum else { return false }
    if !isStarted {
      isStarted = true
      client.start()
    }
    if let connection = client.connection {
      begin(reader, connection)
    } else {
      waiting.append((reader, loop.now.monotonic.adding(milliseconds: OutcomeFeed.waitMilliseconds)))
    }
    return true
  }

  /// Acknowledges an outcome after it was written to its reader.
  func acknowledge(_ delivery: OutcomeDelivery) {
    guard case .reading(let open) = channels[delivery.channel], open.number == delivery.reader,
      let connection = client.connection, connection.isOpen(channel: delivery.channel)
    else { return }
    connection.acknowledge(delivery.tag, isMultiple: false, channel: delivery.channel)
  }

  /// Frees the place of a reader whose client has gone.
  func remove(_ events: OutcomeReader) {
    waiting.removeAll { $0.reader.events === events }
    for (channel, state) in channels {
      if case .reading(let open) = state, open.reader.events === events { closeChannel(channel) }
    }
  }

  func turn() {
    while let event = client.nextEvent() { take(event) }
    let now = loop.now.monotonic
    for (channel, state) in channels {
      guard case .reading(var open) = state,
        open.lastEventAt.adding(milliseconds: OutcomeFeed.keepAliveMilliseconds) <= now
      else { continue }
      open.lastEventAt = now
      channels[channel] = .reading(open)
      if !open.reader.events.deliver(.keepAlive) { closeChannel(channel) }
    }
    while let first = waiting.first, first.deadline <= now {
      waiting.removeFirst()
      first.reader.events.end()
    }
  }

  /// Ends all readers and closes the connection.
  func close() {
    endAll()
    client.stop()
  }

  var isClosed: Bool { client.state == .idle }

  private func begin(_ reader: Reader, _ connection: AMQPConnection) {
    guard
      let channel = (OutcomeFeed.firstChannel..<(OutcomeFeed.firstChannel + UInt16(readersMaximum))).first(where: {
        channels[$0] == nil
      })
    else { return reader.events.end() }
    let offset = reader.from.map(AMQPStreamOffset.offset) ?? .next
    connection.request(.openChannel, channel: channel)
    connection.request(.prefetch(OutcomeFeed.prefetch), channel: channel)
    let consume = connection.request(
      .consume(queue: queue, consumerTag: "outcomes", arguments: [offset.argument]), channel: channel)
    lastNumber += 1
    channels[channel] = .reading(
      Open(reader: reader, number: lastNumber, consume: consume, lastEventAt: loop.now.monotonic))
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      client.provedItself()
      let readers = waiting.map(\.reader)
      waiting = []
      if let connection = client.connection { for reader in readers { begin(reader, connection) } }
    case .down: endAll()
    case .connection(.delivery(let delivery)): received(delivery)
    case .connection(.completed(let channel, let operation, _)):
      switch channels[channel] {
      case .closing(operation): channels[channel] = nil
      case .reading(let open) where open.consume == operation:
        if !open.reader.events.deliver(.keepAlive) { closeChannel(channel) }
      case .reading, .closing, nil: break
      }
    case .connection(.cancelled(let channel)):
      if case .reading(let open) = channels[channel] { open.reader.events.end() }
      closeChannel(channel)
    case .connection(.opened), .connection(.confirmed), .connection(.refused), .connection(.returned),
      .connection(.blocked), .connection(.unblocked), .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func received(_ delivery: AMQPDelivery) {
    guard case .reading(var open) = channels[delivery.channel], let connection = client.connection else { return }
    var body: [UInt8] = []
    connection.copyBody(into: &body)
    let offset = connection.headers().lazy.compactMap { header -> Int64? in
      guard header.name == "x-stream-offset", case .number(let number) = header.value else { return nil }
      return number
    }.first
    let outcome = OutcomeDelivery(tag: delivery.tag, channel: delivery.channel, reader: open.number)
    guard let offset, offset >= open.reader.from ?? 0, !delivery.isOversized,
      OutcomeScope.of(body) == open.reader.scope
    else { return acknowledge(outcome) }
    open.lastEventAt = loop.now.monotonic
    channels[delivery.channel] = .reading(open)
    if !open.reader.events.deliver(.outcome(offset: offset, body: body, delivery: outcome)) {
      closeChannel(delivery.channel)
    }
  }

  private func closeChannel(_ channel: UInt16) {
    guard let connection = client.connection, connection.isOpen(channel: channel) else {
      channels[channel] = nil
      return
    }
    channels[channel] = .closing(connection.request(.closeChannel, channel: channel))
  }

  private func endAll() {
    let readers = channels.values.compactMap { state -> Reader? in
      if case .reading(let open) = state { open.reader } else { nil }
    }
    channels = [:]
    for reader in readers + waiting.map(\.reader) { reader.events.end() }
    waiting = []
  }
}
