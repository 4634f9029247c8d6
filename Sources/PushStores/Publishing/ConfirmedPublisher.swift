package import Logging
import PushCore
package import PushIO
package import PushLane

/// Publishes messages on its own connection, each again until the broker confirms it, except those of `publishOnce`. Declares the queues
/// first.
///
/// For the loop's thread only. A message that is published again may arrive twice.
package final class ConfirmedPublisher {
  /// What became of a message.
  package enum Ending: Sendable {
    case confirmed
    /// No queue takes it.
    case returned
    /// Its destination refused it, or is another's and said nothing.
    case refused
    /// The broker may have it: its connection ended.
    case lost
    /// There is no connection to publish it on.
    case unsent
  }

  /// A message, and the callback for its end.
  package struct Message {
    let exchange: AMQPExchange
    let routingKey: [UInt8]
    /// Adds properties and headers to empty ones.
    let describe: (AMQPProperties, _ isRepeated: Bool) -> Void
    /// Called when the broker confirmed it, or when it ended in another way: `publishOnce`, or `waitingMaximum` of `publish`.
    let then: (Ending) -> Void

    package init(
      exchange: AMQPExchange, routingKey: [UInt8],
      describe: @escaping (AMQPProperties, _ isRepeated: Bool) -> Void,
      then: @escaping (Ending) -> Void
    ) {
      self.exchange = exchange
      self.routingKey = routingKey
      self.describe = describe
      self.then = then
    }
  }

  /// What refuses for itself: a queue, an exchange, or the exchange of the results what it gets of one app.
  private struct Destination: Hashable {
    let exchange: String
    /// Of the default exchange.
    var queue: [UInt8] = []
    var app: [UInt8] = []

    var refused: RefusedDestination {
      RefusedDestination(
        name: exchange.isEmpty ? String(decoding: queue, as: UTF8.self) : exchange,
        app: app.isEmpty ? nil : String(decoding: app, as: UTF8.self))
    }
  }

  private struct Entry {
    let message: Message
    /// nil: published once; the body is not kept.
    let body: [UInt8]?
    /// Its queue's refusals are its owner's business.
    var isForOthers = false
    /// Published although its destination refuses and was not to be tried: its answer says nothing about a probe.
    var isAside = false
    /// So many such messages wait for a destination that refuses, and the others end; nil: it waits for ever.
    var waitingMaximum: Int?
    /// nil: it was not published before.
    var publishedAt: Instant?
  }

  private let loop: EventLoop
  private let topology: Topology
  private let client: RabbitMQClient
  private let properties = AMQPProperties()
  private let confirmMilliseconds: Int64
  /// To be published, in publishing order.
  private var waiting: [Entry] = []
  /// What refused lately, and what waits for it.
  private var refusing: [Destination: (state: DestinationState, waiting: [Entry])] = [:]
  private var turns = RefusalTurns<Destination>()
  /// What is published does not move to another fresh channel before this time.
  private var nextRenewal = Instant(nanoseconds: .min)
  private let notice: (Logger.Level, String) -> Void
  private var channels = RabbitMQPublishChannels()
  /// Published on the current connection and not confirmed, by sequence number.
  private var sent: [UInt64: Entry] = [:]
  /// A lower bound of the numbers in `sent`.
  private var oldest: UInt64 = 1
  package private(set) var isBlocked = false
  /// The broker read nothing before this time: confirm timeouts start no earlier.
  private var readsSince = Instant(nanoseconds: .min)
  /// Queues are not declared again before this time.
  private var nextDeclaration = Instant(nanoseconds: .min)
  private var isClosing = false

  private static let controlChannel: UInt16 = 2
  /// Minimum time between two declarations.
  private static let declarationMilliseconds: Int64 = 1_000
  /// Between two fresh channels.
  private static let renewalMilliseconds: Int64 = 1_000
  /// What is published once tries a destination only while somebody publishes: what it said so long ago may be over.
  private static let triedMilliseconds: Int64 = 60_000
  /// Results of so many apps refuse for themselves; those of others together.
  private static let appsMaximum = 16
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
    let notice: (Logger.Level, String) -> Void = { level, text in
      notice(level, "rabbitmq (\(RabbitMQRole.publisher.rawValue)): \(text)")
    }
    self.notice = notice
    client = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings,
      setUp: RabbitMQPublishChannels.setUp + [(.openChannel, ConfirmedPublisher.controlChannel)]
        + topology.declarations.map { ($0, ConfirmedPublisher.controlChannel) }, notice: notice)
    client.start()
  }

  /// The queues exist.
  package var isReady: Bool { client.isUp }

  /// Published and not confirmed.
  package var unconfirmedCount: Int { sent.count }

  /// What refuses for so long that people should know, and was tried lately. For metrics.
  package var refusedDestinations: [RefusedDestination] {
    if refusing.isEmpty { return [] }
    let lately = loop.now.monotonic.adding(milliseconds: -ConfirmedPublisher.triedMilliseconds)
    return refusing.filter { $0.value.state.isNoted && $0.value.state.publishedAt > lately }.map(\.key.refused)
  }

  /// Bytes that the broker has not read yet.
  package var unsentBytes: Int { client.connection?.outboundCount ?? 0 }

  /// Publishes a message until the broker confirms it.
  /// - Parameter waitingMaximum: only so many such messages wait for a destination that refuses for long: the others end as refused. For those
  ///   that hold something up, and that the caller can put elsewhere.
  package func publish(_ body: [UInt8], as message: Message, waitingMaximum: Int? = nil) {
    waiting.append(Entry(message: message, body: body, waitingMaximum: waitingMaximum))
  }

  /// A message to this one's destination can be published now: it does not refuse, or shall be tried again.
  package func takes(_ message: Message) -> Bool {
    guard !isBlocked, let connection = client.connection else { return false }
    return refusing.isEmpty || isTaken(destination(of: message), on: connection)
  }

  /// Publishes a message whose body is not kept, because it is too large or the caller can send it again. If that fails at once, or would
  /// need a retry, it ends unconfirmed. It is published also where its destination refuses: nothing repeats it.
  /// - Parameter isForOthers: its queue is no part of the topology. What it refuses changes nothing for other messages.
  package func publishOnce(_ body: [UInt8], as message: Message, isForOthers: Bool = false) {
    guard !isBlocked, let connection = client.connection else { return message.then(.unsent) }
    var entry = Entry(message: message, body: nil, isForOthers: isForOthers)
    if !isForOthers, !refusing.isEmpty { entry.isAside = !isTaken(destination(of: message), on: connection) }
    send(entry, body, on: connection)
  }

  /// Drops all messages without calling back: their owners send them again.
  package func forget() {
    waiting = []
    sent = [:]
    for destination in refusing.keys { refusing[destination]?.waiting = [] }
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
    send()
  }

  /// Sends what was published since the turn, too.
  package func send() {
    guard !isBlocked, let connection = client.connection else { return }
    publishToRefusing(on: connection)
    let entries = waiting
    waiting = []
    for entry in entries {
      if !refusing.isEmpty, let index = refusing.index(forKey: destination(of: entry.message)) {
        refusing.values[index].waiting.append(entry)
      } else {
        send(entry, on: connection)
      }
    }
  }

  // MARK: - What refuses

  /// A queue of an analyst may get the results of one app alone: those of others go on. `<outcome>.<environment>.<app>`
  private func destination(of message: Message) -> Destination {
    let exchange = message.exchange.name
    guard exchange == topology.resultsExchange else {
      return Destination(exchange: exchange, queue: exchange.isEmpty ? message.routingKey : [])
    }
    let words = message.routingKey.split(separator: UInt8(ascii: "."), maxSplits: 2, omittingEmptySubsequences: false)
    let own = Destination(exchange: exchange, app: words.count == 3 ? Array(words[2]) : [])
    let hasRoom = refusing[own] != nil || refusing.keys.count { !$0.app.isEmpty } < ConfirmedPublisher.appsMaximum
    return hasRoom ? own : Destination(exchange: exchange)
  }

  private func publishToRefusing(on connection: AMQPConnection) {
    // What was tried longest ago comes first.
    for (destination, _) in refusing.sorted(by: { $0.value.state.publishedAt < $1.value.state.publishedAt }) {
      var sentCount = 0
      while let entry = refusing[destination]?.waiting.dropFirst(sentCount).first, isTaken(destination, on: connection)
      {
        send(entry, on: connection)
        sentCount += 1
      }
      refusing[destination]?.waiting.removeFirst(sentCount)
      endExcess(of: destination)
      recover(destination)
    }
  }

  /// The newest of those that may wait only in small numbers end, if their destination refuses for long.
  private func endExcess(of destination: Destination) {
    guard let (state, waiting) = refusing[destination], state.refusesForLong(now: loop.now.monotonic),
      waiting.contains(where: { $0.waitingMaximum.map { $0 < waiting.count } ?? false })
    else { return }
    var count = 0
    let isExcess = waiting.map { entry -> Bool in
      guard let maximum = entry.waitingMaximum else { return false }
      count += 1
      return count > maximum
    }
    guard isExcess.contains(true) else { return }
    refusing[destination]?.waiting = zip(waiting, isExcess).compactMap { $1 ? nil : $0 }
    for (entry, isExcess) in zip(waiting, isExcess) where isExcess { entry.message.then(.refused) }
  }

  /// A message may be published to it now. If not, that may be the channel's fault: what comes later goes on a fresh one.
  private func isTaken(_ destination: Destination, on connection: AMQPConnection) -> Bool {
    let now = loop.now.monotonic
    guard let state = refusing[destination]?.state else { return true }
    guard destination.app.isEmpty || turns.has(destination, state, now: now),
      let way = refusing[destination]?.state.way(now: now), way != .later
    else { return false }
    if !destination.app.isEmpty { turns.took(destination, state, now: now) }
    if way == .now { return true }
    if now >= nextRenewal {
      nextRenewal = now.adding(milliseconds: ConfirmedPublisher.renewalMilliseconds)
      if let lost = channels.renew(on: connection) { refused(lost) }
    }
    return false
  }

  private func confirmed(_ destination: Destination) {
    let now = loop.now.monotonic
    guard refusing[destination]?.state.confirmed(now: now) == true, !destination.app.isEmpty else { return }
    for other in refusing.keys where !other.app.isEmpty { refusing[other]?.state.tryAgain(now: now) }
  }

  private func recover(_ destination: Destination) {
    let milliseconds = refusing[destination]?.state.recovered(now: loop.now.monotonic)
    if let milliseconds {
      notice(.info, destination.refused.over(milliseconds: milliseconds))
    }
    guard let (state, waiting) = refusing[destination], state.refusingSince == nil else { return }
    refusing[destination] = nil
    self.waiting += waiting
  }

  /// The broker refused these, or will not say. Those that are kept are published again, once their destination takes one.
  private func refused(_ numbers: ClosedRange<UInt64>) {
    for entry in settled(numbers) { refused(entry) }
  }

  private func refused(_ entry: Entry) {
    if entry.isForOthers || entry.isAside { return entry.message.then(.refused) }
    let destination = destination(of: entry.message)
    if refusing[destination, default: (DestinationState(), [])].state.refused(now: loop.now.monotonic) {
      notice(.warning, destination.refused.begun)
    }
    if entry.body == nil { entry.message.then(.refused) } else { refusing[destination]?.waiting.append(entry) }
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      client.provedItself()
      isBlocked = client.blockedReason != nil
      lost()
      channels.restart()
    case .down: lost()
    case .connection(.confirmed(let channel, let number, let isMultiple)):
      guard let numbers = channels.settled(number, isMultiple: isMultiple, channel) else { break }
      for entry in settled(numbers) {
        if !refusing.isEmpty, !entry.isAside {
          confirmed(destination(of: entry.message))
        }
        entry.message.then(.confirmed)
      }
    case .connection(.refused(let channel, let number, let isMultiple)):
      if let numbers = channels.settled(number, isMultiple: isMultiple, channel) { refused(numbers) }
    case .connection(.completed(_, let operation, _)):
      _ = channels.answered(operation)
    case .connection(.returned):
      guard let connection = client.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
        break
      }
      // Its confirm still follows, and matches nothing.
      guard channels.markReturned(number), let entry = sent.removeValue(forKey: number) else { break }
      if entry.isForOthers {
        entry.message.then(.returned)
      } else {
        declareAgain()
        refused(entry)
      }
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      readsSince = loop.now.monotonic
    case .connection(.opened), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  /// Removes the messages that a confirm or a refusal covers.
  private func settled(_ numbers: ClosedRange<UInt64>) -> [Entry] {
    Range(numbers).clamped(to: oldest..<channels.sequence.next).compactMap { sent.removeValue(forKey: $0) }
  }

  /// The connection was lost: unconfirmed messages are published again on the next one.
  private func lost() {
    let entries = sent.sorted { $0.key < $1.key }.map(\.value)
    sent = [:]
    for destination in refusing.keys { refusing[destination]?.state.lost() }
    waiting = entries.filter { $0.body != nil } + waiting
    for entry in entries where entry.body == nil { entry.message.then(.lost) }
  }

  /// Without a confirm for so long, the connection is replaced: its message would wait for ever. A queue of others may be what is silent.
  private func missConfirms() {
    while oldest < channels.sequence.next, sent[oldest] == nil { oldest += 1 }
    guard client.isUp, !isBlocked, let entry = sent[oldest] else { return }
    let due = max(entry.publishedAt ?? readsSince, readsSince).adding(milliseconds: confirmMilliseconds)
    guard due <= loop.now.monotonic else { return }
    if entry.isForOthers {
      sent[oldest] = nil
      return entry.message.then(.refused)
    }
    client.fail(.timedOut(operation: "the confirm of a message", milliseconds: confirmMilliseconds))
    lost()
  }

  /// A message that is kept.
  private func send(_ entry: Entry, on connection: AMQPConnection) {
    guard let body = entry.body else { preconditionFailure("what waits was kept") }
    send(entry, body, on: connection)
  }

  private func send(_ entry: Entry, _ body: [UInt8], on connection: AMQPConnection) {
    properties.reset()
    entry.message.describe(properties, entry.publishedAt != nil)
    let taken = channels.take()
    if entry.message.exchange.isMandatory { RabbitMQPublishNumber.add(taken, to: properties) }
    let number = connection.publish(
      to: entry.message.exchange, channel: channels.channel, routingKey: entry.message.routingKey.span,
      properties: properties, body: body.span)
    assert(channels.sequence.sequence(of: number) == taken)
    var entry = entry
    entry.publishedAt = loop.now.monotonic
    sent[taken] = entry
    if !refusing.isEmpty, !entry.isForOthers, !entry.isAside {
      refusing[destination(of: entry.message)]?.state.published(now: loop.now.monotonic)
    }
  }
}
