import PushCore

/// A broker for command-line use: calls that wait, on an event loop of its own. Never for a lane.
///
/// One connection; channel 1 declares, inspects and publishes with confirms, channel 2 consumes. Every call throws what
/// ended the connection or the channel; a channel that the broker closed is opened anew at the next call.
package final class AMQPAdmin {
  /// The address that answered.
  package let address: AMQPAddress
  /// How publishes ended so far.
  package private(set) var results = AMQPPublishResults()

  /// Publishes that may be unconfirmed before `publish` waits.
  package static let windowCount = 1000

  private let loop: EventLoop
  private let connection: AMQPConnection
  /// Deliveries that were not handed out yet; at most the consumer's prefetch.
  private var inbox: [AMQPMessage] = []
  private var answered: (operation: UInt32, reply: AMQPReply)?
  private var isCancelled = false
  /// Acknowledgements since the queue was last asked something.
  private var unsettled = 0

  private static let control: UInt16 = 1
  private static let consumer: UInt16 = 2
  private static let unsettledMaximum = 16
  private static let consumerTag = "herald"
  private static let answerMilliseconds: Int64 = 30_000

  /// Connects to the first address that answers. Throws what the last one said.
  package init(
    addresses: [AMQPAddress], tls: TLSContext?, name: String, options: AMQPOptions = AMQPOptions()
  ) throws(AMQPError) {
    precondition(!addresses.isEmpty, "a broker needs an address")
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

  /// Waits until the connection is open; why it is not, else.
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

  /// Several in order; the first that fails ends it.
  package func perform(all operations: [AMQPOperation]) throws(AMQPError) {
    for operation in operations { try perform(operation) }
  }

  /// Ready messages of a queue; nil where there is no such queue.
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
    guard connection.isReady else { throw connection.failure ?? .connectionLost(to: address.hostAndPort, reason: nil) }
    let number = connection.request(operation, channel: channel)
    let deadline = loop.now.monotonic.adding(milliseconds: AMQPAdmin.answerMilliseconds)
    while true {
      try pump(waitMilliseconds: 100)
      if let answered, answered.operation == number { return answered.reply }
      if loop.now.monotonic > deadline {
        throw .timedOut(operation: operation.description, milliseconds: AMQPAdmin.answerMilliseconds)
      }
    }
  }

  // MARK: publishing

  /// Publishes with confirms; waits only while `windowCount` are unconfirmed, or the broker is blocked. `results`
  /// counts.
  package func publish(
    to exchange: AMQPExchange, routingKey: String, properties: AMQPProperties, body: [UInt8]
  ) throws(AMQPError) {
    try openControl()
    while results.unconfirmed >= AMQPAdmin.windowCount || connection.blockedReason != nil {
      try pump(waitMilliseconds: 1000)
    }
    connection.publish(
      to: exchange, channel: AMQPAdmin.control, routingKey: routingKey.utf8.span, properties: properties,
      body: body.span)
    results.didPublish()
    if results.unconfirmed % 64 == 0 { try pump(waitMilliseconds: 0) }
  }

  /// Waits until every publish is settled. `results` says how.
  package func waitForConfirms(timeoutMilliseconds: Int64 = 60_000) throws(AMQPError) {
    let deadline = loop.now.monotonic.adding(milliseconds: timeoutMilliseconds)
    while results.unconfirmed > 0 {
      try pump(waitMilliseconds: 100)
      if loop.now.monotonic > deadline {
        throw .timedOut(operation: "\(results.unconfirmed) publishes", milliseconds: timeoutMilliseconds)
      }
    }
  }

  // MARK: consuming

  /// Hands messages of a queue to `each`, until `limit` were seen, nothing came for `idleMilliseconds` (nil: goes on
  /// waiting), or `each` returns nil. Unsettled messages go back to the queue. Returns how many were seen.
  ///
  /// `offset` is for streams, which must be acknowledged too: their credit is the prefetch. `each` may publish and
  /// wait.
  @discardableResult
  package func consume(
    queue: String, offset: AMQPStreamOffset? = nil, prefetch: UInt16 = 100, limit: Int? = nil,
    idleMilliseconds: Int64?, _ each: (AMQPMessage) throws(AMQPError) -> AMQPDisposition?
  ) throws(AMQPError) -> Int {
    precondition(limit != 0, "a limit is at least 1")
    isCancelled = false
    inbox.removeAll()
    _ = try answer(to: .openChannel, channel: AMQPAdmin.consumer)
    _ = try answer(to: .prefetch(prefetch), channel: AMQPAdmin.consumer)
    let consume = AMQPOperation.consume(
      queue: queue, consumerTag: AMQPAdmin.consumerTag, arguments: offset.map { [$0.argument] } ?? [])
    _ = try answer(to: consume, channel: AMQPAdmin.consumer)
    let count: Int
    do throws(AMQPError) {
      count = try handOut(queue, limit: limit, idleMilliseconds: idleMilliseconds, each)
    } catch {
      inbox.removeAll()
      if connection.isOpen(channel: AMQPAdmin.consumer) {
        _ = try answer(to: .closeChannel, channel: AMQPAdmin.consumer)
      }
      throw error
    }
    if connection.isOpen(channel: AMQPAdmin.consumer) {
      _ = try answer(to: .cancel(consumerTag: AMQPAdmin.consumerTag), channel: AMQPAdmin.consumer)
      try settle(queue)
      // Closing the channel gives back what is not settled.
      _ = try answer(to: .closeChannel, channel: AMQPAdmin.consumer)
    }
    inbox.removeAll()
    return count
  }

  /// A channel of a quorum queue holds acknowledgements back while 32 of its commands are under way, and forgets those
  /// when it is closed: they are sent in small numbers, and seen through before it closes. Each question to the queue
  /// waits for what was sent before it.
  private func settle(_ queue: String) throws(AMQPError) {
    unsettled = 0
    for _ in 0..<2 { _ = try answer(to: .inspectQueue(name: queue), channel: AMQPAdmin.consumer) }
  }

  private func handOut(
    _ queue: String, limit: Int?, idleMilliseconds: Int64?,
    _ each: (AMQPMessage) throws(AMQPError) -> AMQPDisposition?
  ) throws(AMQPError) -> Int {
    var count = 0
    var hasKept = false
    var lastSeen = loop.now.monotonic
    while true {
      // Settled in order, so that one acknowledgement stands for a run of them.
      var run: UInt64?
      defer { if let run { acknowledge(run, isMultiple: true) } }
      while !inbox.isEmpty {
        let messages = inbox
        inbox.removeAll()
        for message in messages {
          guard let disposition = try each(message) else { return count }
          switch disposition {
          case .acknowledge:
            if hasKept {
              acknowledge(message.tag, isMultiple: false)
              if unsettled >= AMQPAdmin.unsettledMaximum { try settle(queue) }
            } else {
              run = message.tag
            }
          case .requeue, .keep:
            if let tag = run { acknowledge(tag, isMultiple: true) }
            run = nil
            if disposition == .keep { hasKept = true } else { requeue(message.tag) }
          }
          count += 1
          if count == limit { return count }
        }
        lastSeen = loop.now.monotonic
      }
      if let tag = run { acknowledge(tag, isMultiple: true) }
      run = nil
      if isCancelled { throw .consumerCancelled(channel: AMQPAdmin.consumer) }
      if let idleMilliseconds, loop.now.monotonic.milliseconds(since: lastSeen) >= idleMilliseconds { return count }
      try pump(waitMilliseconds: min(100, idleMilliseconds ?? 100))
    }
  }

  private func acknowledge(_ tag: UInt64, isMultiple: Bool) {
    guard connection.isOpen(channel: AMQPAdmin.consumer) else { return }
    connection.acknowledge(tag, isMultiple: isMultiple, channel: AMQPAdmin.consumer)
    unsettled += 1
  }

  private func requeue(_ tag: UInt64) {
    guard connection.isOpen(channel: AMQPAdmin.consumer) else { return }
    connection.reject(tag, requeue: true, channel: AMQPAdmin.consumer)
    unsettled += 1
  }

  // MARK: the loop

  /// One turn. Throws what ended the connection or a channel.
  private func pump(waitMilliseconds: Int64) throws(AMQPError) {
    loop.flush()
    loop.poll(maximumWaitMilliseconds: Int(waitMilliseconds))
    var failure: AMQPError?
    while let event = connection.nextEvent() {
      switch event {
      case .opened, .blocked, .unblocked:
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
      tag: delivery.tag)
    connection.copyBody(into: &message.body)
    connection.copyMetadata(into: &message.metadata)
    return message
  }

  /// Says goodbye and waits shortly for the answer.
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
