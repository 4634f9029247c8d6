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
    let scope: AppScope
    /// The offset before the first outcome to deliver; nil: only new outcomes.
    let after: Int64?
    /// The id of its API key.
    let key: String
    let events: OutcomeReader
    /// Called once: outcomes are delivered from now on, or why they are not.
    let begin: (OutcomeRefusal?) -> Void
  }

  private struct Open {
    enum Phase {
      /// RabbitMQ has not answered this operation. Once it does, no outcome is missed. → seeking, delivering
      case consuming(UInt32, deadline: Instant)
      /// Waits for a first outcome, which shows that the log has come to the reader's `after`. → delivering
      case seeking(deadline: Instant)
      case delivering
    }

    let reader: Reader
    let number: UInt64
    var phase: Phase
    /// Of outcomes that were delivered and not acknowledged.
    var heldBytes = 0
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
  private let readersOfKeyMaximum: Int
  private let isLogged: Bool
  private var channels: [UInt16: Channel] = [:]
  /// Readers that wait for the connection.
  private var waiting: [(reader: Reader, deadline: Instant)] = []
  private var isStarted = false
  private var lastNumber: UInt64 = 0

  private static let firstChannel: UInt16 = 2
  /// Outcomes that a reader holds in memory while its client does not read, beside the rest of a chunk: RabbitMQ delivers whole chunks of a
  /// stream.
  private static let prefetch: UInt16 = 32
  /// A larger one is left out: Herald writes none.
  private static let outcomeBytesMaximum = 16 << 10
  /// Maximum of deliveries in a turn of the loop: publishing goes on beside the readers of a long log.
  private static let turnMaximum = 1_000
  private static let keepAliveMilliseconds: Int64 = 15_000
  private static let waitMilliseconds: Int64 = 5_000

  init(loop: EventLoop, settings: GatewaySettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    readersMaximum = settings.readersMaximum
    readersOfKeyMaximum = settings.readersOfKeyMaximum
    isLogged = settings.isLogged
    queue = settings.rabbitmq.topology.resultsLogQueue
    var rabbitmq = settings.rabbitmq
    rabbitmq.connection.bodyBytesMaximum = OutcomeFeed.outcomeBytesMaximum
    rabbitmq.connection.channelCount = OutcomeFeed.firstChannel + UInt16(settings.readersMaximum)
    client = RabbitMQClient(loop: loop, role: .consumer, settings: rabbitmq, setUp: [(.openChannel, 1)]) {
      notice($0, "rabbitmq (outcomes): \($1)")
    }
  }

  var readerCount: Int { channels.count + waiting.count }

  /// Of outcomes that readers hold.
  var heldBytes: Int {
    channels.values.reduce(0) { if case .reading(let open) = $1 { $0 + open.heldBytes } else { $0 } }
  }

  func add(_ reader: Reader) {
    guard isLogged else { return reader.begin(.noLog) }
    guard readerCount < readersMaximum else { return reader.begin(.tooManyReaders) }
    guard count({ $0.key == reader.key }) < readersOfKeyMaximum else {
      return reader.begin(.tooManyOfKey(maximum: readersOfKeyMaximum))
    }
    // An app may have many keys: it leaves room for others, whose one reader always finds some.
    let own = count { $0.scope.app == reader.scope.app } + 1
    guard FairBudget<String>.isFair(own, leaving: readersMaximum - readerCount - 1) else {
      return reader.begin(.tooManyOfApp)
    }
    if !isStarted {
      isStarted = true
      client.start()
    }
    if let connection = client.connection {
      consume(reader, connection)
    } else {
      waiting.append((reader, deadline))
    }
  }

  private func count(_ isWanted: (Reader) -> Bool) -> Int {
    channels.values.count { if case .reading(let open) = $0 { isWanted(open.reader) } else { false } }
      + waiting.count { isWanted($0.reader) }
  }

  private var deadline: Instant { loop.now.monotonic.adding(milliseconds: OutcomeFeed.waitMilliseconds) }

  /// Acknowledges an outcome after it was written to its reader.
  func acknowledge(_ delivery: OutcomeDelivery) {
    guard case .reading(var open) = channels[delivery.channel], open.number == delivery.reader,
      let connection = client.connection, connection.isOpen(channel: delivery.channel)
    else { return }
    open.heldBytes -= delivery.heldBytes
    channels[delivery.channel] = .reading(open)
    connection.acknowledge(delivery.tag, isMultiple: false, channel: delivery.channel)
  }

  /// Frees the place of a reader whose client has gone.
  func remove(_ events: OutcomeReader) {
    for (channel, state) in channels {
      if case .reading(let open) = state, open.reader.events === events { closeChannel(channel) }
    }
  }

  /// Deliveries are left for the next turn.
  private(set) var hasWork = false

  func turn() {
    hasWork = true
    for _ in 0..<OutcomeFeed.turnMaximum {
      guard let event = client.nextEvent() else {
        hasWork = false
        break
      }
      take(event)
    }
    let now = loop.now.monotonic
    for (channel, state) in channels {
      guard case .reading(let open) = state else { continue }
      switch open.phase {
      case .consuming(_, let deadline) where deadline <= now: refuse(channel, open, .disconnected)
      // What the log has, RabbitMQ delivers at once.
      case .seeking(let deadline) where deadline <= now: refuse(channel, open, .beyondEnd)
      case .delivering where open.lastEventAt.adding(milliseconds: OutcomeFeed.keepAliveMilliseconds) <= now:
        deliver(.keepAlive, channel, open)
      case .consuming, .seeking, .delivering: break
      }
    }
    while let first = waiting.first, first.deadline <= now {
      waiting.removeFirst()
      first.reader.begin(.disconnected)
    }
  }

  /// Ends all readers and closes the connection.
  func close() {
    endAll()
    client.stop()
  }

  var isClosed: Bool { client.state == .idle }

  private func consume(_ reader: Reader, _ connection: AMQPConnection) {
    guard
      let channel = (OutcomeFeed.firstChannel..<(OutcomeFeed.firstChannel + UInt16(readersMaximum))).first(where: {
        channels[$0] == nil
      })
    else { return reader.begin(.tooManyReaders) }
    // From the outcome that the reader has, to see whether the log has it.
    let offset = reader.after.map { AMQPStreamOffset.offset(max(0, $0)) } ?? .next
    connection.request(.openChannel, channel: channel)
    connection.request(.prefetch(OutcomeFeed.prefetch), channel: channel)
    let consume = connection.request(
      .consume(queue: queue, consumerTag: "outcomes", arguments: [offset.argument]), channel: channel)
    lastNumber += 1
    channels[channel] = .reading(
      Open(
        reader: reader, number: lastNumber, phase: .consuming(consume, deadline: deadline),
        lastEventAt: loop.now.monotonic))
  }

  /// RabbitMQ delivers from now on.
  private func consumes(_ channel: UInt16, _ open: Open) {
    if let after = open.reader.after, after >= 0 {
      var open = open
      open.phase = .seeking(deadline: deadline)
      channels[channel] = .reading(open)
    } else {
      begin(channel, open)
    }
  }

  private func begin(_ channel: UInt16, _ open: Open) {
    var open = open
    open.phase = .delivering
    open.reader.begin(nil)
    deliver(.keepAlive, channel, open)
  }

  private func refuse(_ channel: UInt16, _ open: Open, _ refusal: OutcomeRefusal) {
    open.reader.begin(refusal)
    closeChannel(channel)
  }

  private func deliver(_ event: OutcomeEvent, _ channel: UInt16, _ open: Open) {
    var open = open
    open.lastEventAt = loop.now.monotonic
    if case .outcome(_, _, let delivery) = event { open.heldBytes += delivery.heldBytes }
    channels[channel] = .reading(open)
    if !open.reader.events.deliver(event) { closeChannel(channel) }
  }

  /// RabbitMQ delivers nothing more.
  private func end(_ open: Open) {
    switch open.phase {
    case .consuming, .seeking: open.reader.begin(.disconnected)
    case .delivering: open.reader.events.end()
    }
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      client.provedItself()
      let readers = waiting.map(\.reader)
      waiting = []
      if let connection = client.connection { for reader in readers { consume(reader, connection) } }
    case .down: endAll()
    case .connection(.delivery(let delivery)): received(delivery)
    case .connection(.completed(let channel, let operation, _)):
      switch channels[channel] {
      case .closing(operation): channels[channel] = nil
      case .reading(let open):
        if case .consuming(operation, _) = open.phase { consumes(channel, open) }
      case .closing, nil: break
      }
    case .connection(.cancelled(let channel)):
      if case .reading(let open) = channels[channel] { end(open) }
      closeChannel(channel)
    case .connection(.opened), .connection(.confirmed), .connection(.refused), .connection(.returned),
      .connection(.blocked), .connection(.unblocked), .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func received(_ delivery: AMQPDelivery) {
    if case .reading(let open) = channels[delivery.channel], case .seeking = open.phase {
      begin(delivery.channel, open)
    }
    guard case .reading(let open) = channels[delivery.channel], let connection = client.connection else { return }
    var body: [UInt8] = []
    connection.copyBody(into: &body)
    let offset = connection.headers().lazy.compactMap { header -> Int64? in
      guard header.name == "x-stream-offset", case .number(let number) = header.value else { return nil }
      return number
    }.first
    var outcome = OutcomeDelivery(tag: delivery.tag, channel: delivery.channel, reader: open.number)
    guard let offset, offset > open.reader.after ?? -1, !delivery.isOversized,
      OutcomeScope.of(body) == open.reader.scope
    else { return acknowledge(outcome) }
    outcome.heldBytes = body.count
    deliver(.outcome(offset: offset, body: body, delivery: outcome), delivery.channel, open)
  }

  /// Also where RabbitMQ has not even opened it: its number is free once the close is answered.
  private func closeChannel(_ channel: UInt16) {
    guard let connection = client.connection, connection.isInUse(channel: channel) else {
      channels[channel] = nil
      return
    }
    channels[channel] = .closing(connection.request(.closeChannel, channel: channel))
  }

  private func endAll() {
    let ended = channels.values
    let readers = waiting.map(\.reader)
    channels = [:]
    waiting = []
    for case .reading(let open) in ended { end(open) }
    for reader in readers { reader.begin(.disconnected) }
  }
}
