import PushCore

/// A broker client for commands: its calls block, on an event loop of its own. Never for a lane.
///
/// It uses one connection. Channel 1 declares, inspects and publishes with confirms; channel 2 consumes, and further ones too if many
/// messages are kept. Every call throws the error that ended the connection or the channel. A channel that the broker closed is reopened at
/// the next call.
package final class AMQPAdmin {
  /// The address that answered.
  package let address: AMQPAddress
  /// Counts how publishes ended so far.
  package private(set) var results = AMQPPublishResults()

  /// Maximum of unconfirmed publishes before `publish` waits.
  package static let windowCount = 1000
  /// From a question to its answer.
  package var answerMilliseconds: Int64 = 30_000
  /// How long publishes may wait without one being settled: the broker hangs, or has an alarm.
  package var settleMilliseconds: Int64 = 60_000
  /// Told when the broker takes no more publishes, and why.
  package var onBlocked: (AMQPError) -> Void = { _ in }

  private let loop: EventLoop
  private let connection: AMQPConnection
  /// Deliveries not passed on yet; at most the consumer's prefetch.
  private var inbox: [AMQPMessage] = []
  private var answered: (operation: UInt32, reply: AMQPReply)?
  private var isCancelled = false
  /// Acknowledgements since the queue was last queried.
  private var unsettled = 0

  /// The channel that consumes; earlier ones, from `firstConsumer` on, only hold kept messages.
  private var consumer = AMQPAdmin.firstConsumer
  private let channelCount: UInt16

  private static let control: UInt16 = 1
  private static let firstConsumer: UInt16 = 2
  private static let unsettledMaximum = 16
  private static let alarmMilliseconds: Int64 = 2_000
  private static let consumerTag = "herald"

  /// Connects to the first address that answers. Throws the last address's error.
  package init(
    addresses: [AMQPAddress], tls: TLSContext?, name: String, options: AMQPOptions = AMQPOptions()
  ) throws(AMQPError) {
    precondition(!addresses.isEmpty, "a broker needs an address")
    channelCount = options.channelCount
    let loop: EventLoop
    do throws(LoopError) {
      loop = try EventLoop()
    } catch {
      throw .cannotConnect(to: addresses[0].hostAndPort, reason: error.description)
    }
    var last = AMQPError.timedOut(operation: "connect", milliseconds: options.connectTimeoutMilliseconds)
    for address in addresses {
      let connection = AMQPConnection(loop: loop, address: address, name: name, options: options)
      connection.connect(tls: address.usesTLS ? tls : nil)
      guard let failure = AMQPAdmin.openFailure(connection, loop) else {
        self.loop = loop
        self.connection = connection
        self.address = address
        return
      }
      last = failure
    }
    throw last
  }

  /// Waits until the connection is open; returns the error if it does not open.
  private static func openFailure(_ connection: AMQPConnection, _ loop: EventLoop) -> AMQPError? {
    while true {
      loop.poll(maximumWaitMilliseconds: 100)
      while let event = connection.nextEvent() {
        if event == .opened { return nil }
        if event == .closed { return connection.failure ?? .connectionLost(to: "the broker", reason: nil) }
      }
      loop.flush()
    }
  }

  /// Product and version of the broker.
  package var server: String { connection.server }

  // MARK: operations

  /// Sends an operation and waits for its answer.
  @discardableResult
  package func perform(_ operation: AMQPOperation) throws(AMQPError) -> AMQPReply {
    try openControl()
    return try answer(to: operation, channel: AMQPAdmin.control)
  }

  /// Performs several operations in order; stops at the first error.
  package func perform(all operations: [AMQPOperation]) throws(AMQPError) {
    for operation in operations { try perform(operation) }
  }

  /// Ready messages of a queue; nil if there is no such queue.
  package func messageCount(queue: String) throws(AMQPError) -> Int? {
    do throws(AMQPError) {
      return Int(try perform(.inspectQueue(name: queue)).messageCount)
    } catch {
      if error.isNotFound { return nil }
      throw error
    }
  }

  /// Drops the ready messages of a queue. Returns how many.
  package func purge(queue: String) throws(AMQPError) -> Int {
    Int(try perform(.purge(queue: queue)).messageCount)
  }

  private func openControl() throws(AMQPError) {
    guard !connection.isOpen(channel: AMQPAdmin.control) else { return }
    _ = try answer(to: .openChannel, channel: AMQPAdmin.control)
    _ = try answer(to: .selectConfirms, channel: AMQPAdmin.control)
  }

  private func answer(to operation: AMQPOperation, channel: UInt16) throws(AMQPError) -> AMQPReply {
    // The loop's time is that of its last turn, which may be long ago.
    try pump(waitMilliseconds: 0)
    let number = connection.request(operation, channel: channel)
    let deadline = loop.now.monotonic.adding(milliseconds: answerMilliseconds)
    while true {
      try pump(waitMilliseconds: 100)
      if let answered, answered.operation == number { return answered.reply }
      if loop.now.monotonic > deadline {
        throw .timedOut(operation: operation.description, milliseconds: answerMilliseconds)
      }
    }
  }

  // MARK: publishing

  /// Publishes with confirms. Waits only while `windowCount` are unconfirmed or the broker is blocked, for at most `settleMilliseconds`.
  /// `results` counts.
  package func publish(
    to exchange: AMQPExchange, routingKey: String, properties: AMQPProperties, body: [UInt8]
  ) throws(AMQPError) {
    try openControl()
    if !hasRoom { try waitForSettlements { hasRoom } }
    connection.publish(
      to: exchange, channel: AMQPAdmin.control, routingKey: routingKey.utf8.span, properties: properties,
      body: body.span)
    results.didPublish()
    if results.unconfirmed % 64 == 0 { try pump(waitMilliseconds: 0) }
  }

  /// Waits until every publish is settled. `results` has the counts.
  package func waitForConfirms() throws(AMQPError) {
    try waitForSettlements { results.unconfirmed == 0 }
  }

  /// Throws where the broker has an alarm, which it tells only those that publish: publishes a message that no queue takes.
  package func checkForAlarm() throws(AMQPError) {
    let nowhere = AMQPExchange("", isMandatory: false)
    try publish(
      to: nowhere, routingKey: AMQPAlarmProbe.routingKey, properties: AMQPProperties(), body: AMQPAlarmProbe.body)
    let deadline = loop.now.monotonic.adding(milliseconds: AMQPAdmin.alarmMilliseconds)
    while results.unconfirmed > 0 {
      if let reason = connection.blockedReason { throw .blocked(reason: reason) }
      guard loop.now.monotonic < deadline else {
        throw .timedOut(operation: "a publish", milliseconds: AMQPAdmin.alarmMilliseconds)
      }
      try pump(waitMilliseconds: 20)
    }
  }

  private var hasRoom: Bool { results.unconfirmed < AMQPAdmin.windowCount && connection.blockedReason == nil }

  private func waitForSettlements(until isDone: () -> Bool) throws(AMQPError) {
    // The loop's time is that of its last turn, which may be long ago.
    try pump(waitMilliseconds: 0)
    var waiting = results.unconfirmed
    var deadline = loop.now.monotonic.adding(milliseconds: settleMilliseconds)
    while !isDone() {
      try pump(waitMilliseconds: 100)
      if results.unconfirmed < waiting {
        waiting = results.unconfirmed
        deadline = loop.now.monotonic.adding(milliseconds: settleMilliseconds)
      } else if loop.now.monotonic > deadline {
        if let reason = connection.blockedReason { throw .blocked(reason: reason) }
        throw .timedOut(operation: "\(waiting) publishes", milliseconds: settleMilliseconds)
      }
    }
  }

  // MARK: consuming

  /// Passes messages of a queue to `each`, until `limit` were seen, none came for `idleMilliseconds` (nil: no limit), or `each` returns
  /// nil. Unsettled messages return to the queue, in order. Returns how many were seen.
  ///
  /// `offset` is for streams, whose messages must be acknowledged too: their credit is the prefetch. `each` may publish and wait. At most
  /// `prefetch` messages wait in memory. Kept messages wait in the broker: if they fill the prefetch of a channel, the next channel
  /// consumes, as long as the connection has one. One acknowledgement covers at most `acknowledgeBatch` messages.
  @discardableResult
  package func consume(
    queue: String, offset: AMQPStreamOffset? = nil, prefetch: UInt16 = 100, limit: Int? = nil,
    idleMilliseconds: Int64?, acknowledgeBatch: Int = .max, _ each: (AMQPMessage) throws(AMQPError) -> AMQPDisposition?
  ) throws(AMQPError) -> Int {
    precondition(limit != 0, "a limit is at least 1")
    let bounds = ConsumeBounds(
      queue: queue, offset: offset, prefetch: prefetch, limit: limit, idleMilliseconds: idleMilliseconds,
      acknowledgeBatch: acknowledgeBatch)
    isCancelled = false
    inbox.removeAll()
    consumer = AMQPAdmin.firstConsumer
    let count: Int
    do throws(AMQPError) {
      try startConsumer(bounds)
      count = try handOut(bounds, each)
    } catch {
      inbox.removeAll()
      try? closeConsumers()
      throw error
    }
    if connection.isOpen(channel: consumer) {
      _ = try answer(to: .cancel(consumerTag: AMQPAdmin.consumerTag), channel: consumer)
      try settle(queue)
    }
    try closeConsumers()
    inbox.removeAll()
    return count
  }

  private struct ConsumeBounds {
    let queue: String
    let offset: AMQPStreamOffset?
    let prefetch: UInt16
    let limit: Int?
    let idleMilliseconds: Int64?
    let acknowledgeBatch: Int
  }

  private func startConsumer(_ bounds: ConsumeBounds) throws(AMQPError) {
    _ = try answer(to: .openChannel, channel: consumer)
    _ = try answer(to: .prefetch(bounds.prefetch), channel: consumer)
    let consume = AMQPOperation.consume(
      queue: bounds.queue, consumerTag: AMQPAdmin.consumerTag, arguments: bounds.offset.map { [$0.argument] } ?? [])
    _ = try answer(to: consume, channel: consumer)
  }

  /// Closing a channel returns its unsettled messages; closing the channels in order restores the queue's order.
  private func closeConsumers() throws(AMQPError) {
    for channel in AMQPAdmin.firstConsumer...consumer where connection.isOpen(channel: channel) {
      _ = try answer(to: .closeChannel, channel: channel)
    }
  }

  /// A channel of a quorum queue holds acknowledgements back while 32 of its commands are in flight, and loses them when it is closed. So
  /// they are sent in small batches and completed before the channel closes: a query of the queue waits for what was sent before it.
  private func settle(_ queue: String) throws(AMQPError) {
    unsettled = 0
    for _ in 0..<2 { _ = try answer(to: .inspectQueue(name: queue), channel: consumer) }
  }

  private func handOut(
    _ bounds: ConsumeBounds, _ each: (AMQPMessage) throws(AMQPError) -> AMQPDisposition?
  ) throws(AMQPError) -> Int {
    var count = 0
    /// Of the channel that consumes.
    var keptCount = 0
    var lastSeen = loop.now.monotonic
    /// Nothing came for the idle time, and the broker was there in the end.
    var isEndLikely = false
    while true {
      // Settled in order, so that one acknowledgement covers a run of messages.
      var run: (last: UInt64, count: Int)?
      defer { if let run { acknowledge(run.last, isMultiple: true) } }
      while !inbox.isEmpty {
        let messages = inbox
        inbox.removeAll()
        for message in messages {
          guard let disposition = try each(message) else { return count }
          switch disposition {
          case .acknowledge:
            if keptCount > 0 {
              acknowledge(message.tag, isMultiple: false)
            } else {
              run = (message.tag, (run?.count ?? 0) + 1)
              if let full = run, full.count >= bounds.acknowledgeBatch {
                acknowledge(full.last, isMultiple: true)
                run = nil
              }
            }
            if unsettled >= AMQPAdmin.unsettledMaximum { try settle(bounds.queue) }
          case .requeue, .keep:
            if let run { acknowledge(run.last, isMultiple: true) }
            run = nil
            if disposition == .keep { keptCount += 1 } else { requeue(message.tag) }
          }
          count += 1
          if count == bounds.limit { return count }
        }
        lastSeen = loop.now.monotonic
        isEndLikely = false
      }
      if let run { acknowledge(run.last, isMultiple: true) }
      run = nil
      if isCancelled { throw .consumerCancelled(channel: consumer) }
      if keptCount >= Int(bounds.prefetch) {
        guard consumer < channelCount else { return count }
        _ = try answer(to: .cancel(consumerTag: AMQPAdmin.consumerTag), channel: consumer)
        try settle(bounds.queue)
        consumer += 1
        keptCount = 0
        try startConsumer(bounds)
        lastSeen = loop.now.monotonic
      }
      if let idle = bounds.idleMilliseconds, loop.now.monotonic.milliseconds(since: lastSeen) >= idle {
        // Silence of a broker that stands still is no end.
        let wasPrompt = try answersPromptly(bounds.queue, milliseconds: idle / 4)
        if wasPrompt, isEndLikely, inbox.isEmpty { return count }
        isEndLikely = wasPrompt
        lastSeen = loop.now.monotonic
      }
      try pump(waitMilliseconds: min(100, bounds.idleMilliseconds ?? 100))
    }
  }

  private func answersPromptly(_ queue: String, milliseconds: Int64) throws(AMQPError) -> Bool {
    let start = loop.now.monotonic
    _ = try answer(to: .inspectQueue(name: queue), channel: consumer)
    return loop.now.monotonic.milliseconds(since: start) < milliseconds
  }

  private func acknowledge(_ tag: UInt64, isMultiple: Bool) {
    guard connection.isOpen(channel: consumer) else { return }
    connection.acknowledge(tag, isMultiple: isMultiple, channel: consumer)
    unsettled += 1
  }

  private func requeue(_ tag: UInt64) {
    guard connection.isOpen(channel: consumer) else { return }
    connection.reject(tag, requeue: true, channel: consumer)
    unsettled += 1
  }

  /// Waits, and keeps the connection alive.
  package func wait(milliseconds: Int64) throws(AMQPError) {
    try pump(waitMilliseconds: 0)
    let end = loop.now.monotonic.adding(milliseconds: milliseconds)
    while loop.now.monotonic < end {
      try pump(waitMilliseconds: max(1, min(100, end.milliseconds(since: loop.now.monotonic))))
    }
  }

  // MARK: the loop

  /// One turn. Throws the error that ended the connection or a channel.
  private func pump(waitMilliseconds: Int64) throws(AMQPError) {
    loop.flush()
    loop.poll(maximumWaitMilliseconds: Int(waitMilliseconds))
    var failure: AMQPError?
    while let event = connection.nextEvent() {
      switch event {
      case .blocked:
        onBlocked(.blocked(reason: connection.blockedReason ?? "no reason given"))
      case .opened, .unblocked:
        break
      case .completed(_, let operation, let reply):
        answered = (operation, reply)
      case .delivery(let delivery):
        inbox.append(message(delivery))
      case .confirmed(_, let sequence, let isMultiple):
        results.didConfirm(sequence, isMultiple: isMultiple)
      case .refused(_, let sequence, let isMultiple):
        results.didRefuse(sequence, isMultiple: isMultiple)
      case .returned:
        results.didReturn()
      case .cancelled:
        isCancelled = true
      case .channelClosed(let channel):
        if channel == AMQPAdmin.control { results.channelLost() }
        failure = failure ?? connection.channelError(channel)
      case .closed:
        results.channelLost()
        failure = connection.failure ?? .connectionLost(to: address.hostAndPort, reason: nil)
      }
    }
    loop.flush()
    if let failure { throw failure }
    guard connection.isReady else { throw connection.failure ?? .connectionLost(to: address.hostAndPort, reason: nil) }
  }

  private func message(_ delivery: AMQPDelivery) -> AMQPMessage {
    var message = AMQPMessage(
      body: [], isOversized: delivery.isOversized, metadata: MessageMetadata(), headers: connection.headers(),
      deaths: connection.deaths(), tag: delivery.tag)
    connection.copyBody(into: &message.body)
    connection.copyMetadata(into: &message.metadata)
    return message
  }

  /// Closes the connection and waits briefly for the answer.
  package func close() {
    connection.close()
    loop.flush()
    for _ in 0..<20 where !connection.isClosed {
      loop.poll(maximumWaitMilliseconds: 100)
      while connection.nextEvent() != nil {}
      loop.flush()
    }
  }
}
