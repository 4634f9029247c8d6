/// Exchanges, queues and bindings: declared, compared, and deleted.
extension SimulatedRabbitMQ {
  /// Resolves an empty name to the queue that this channel declared last.
  func named(_ name: [UInt8], on channel: RabbitChannel) throws(RabbitError) -> [UInt8] {
    guard name.isEmpty else { return name }
    if channel.lastQueue.isEmpty { throw RabbitError(.notFound, "no previously declared queue") }
    return channel.lastQueue
  }

  // MARK: - Exchanges

  func declareExchange(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    let name = reader.shortText()
    let type = reader.shortText()
    let flags = reader.octet()
    let arguments = reader.table()
    try RabbitSession.check(reader)
    let isPassive = flags & 1 != 0
    if isPassive {
      if name.isEmpty { throw RabbitError(.accessRefused, "operation not permitted on the default exchange") }
      guard exchanges[name] != nil else { throw RabbitError.noExchange(name, in: settings.virtualHost) }
    } else {
      try declareExchange(name, type, flags, arguments)
    }
    if flags & 16 == 0 { answer(channel, RabbitMethod.exchangeDeclareOK) }
  }

  private func declareExchange(
    _ name: [UInt8], _ type: [UInt8], _ flags: UInt8, _ arguments: RabbitTable
  ) throws(RabbitError) {
    guard let kind = RabbitExchange.Kind(rawValue: describe(type)) else {
      throw RabbitError(.commandInvalid, "unknown exchange type '\(describe(type))'")
    }
    if name.isEmpty { throw RabbitError(.accessRefused, "operation not permitted on the default exchange") }
    let (isDurable, isAutoDelete, isInternal) = (flags & 2 != 0, flags & 4 != 0, flags & 8 != 0)
    guard let existing = exchanges[name] else {
      if name.starts(with: "amq.".utf8) {
        throw RabbitError(.accessRefused, "exchange name '\(describe(name))' contains reserved prefix 'amq.*'")
      }
      precondition(exchanges.count < SimulatedRabbitMQ.exchangesMaximum, "too many exchanges")
      exchanges[name] = RabbitExchange(
        name: name, kind: kind, isDurable: isDurable, isAutoDelete: isAutoDelete, isInternal: isInternal,
        arguments: arguments)
      return
    }
    let title = "exchange '\(describe(name))' in vhost '\(settings.virtualHost)'"
    try RabbitQueueSettings.compare("type", .text(kind.rawValue), .text(existing.kind.rawValue), title)
    try RabbitQueueSettings.compare("durable", .flag(isDurable), .flag(existing.isDurable), title)
    try RabbitQueueSettings.compare("auto_delete", .flag(isAutoDelete), .flag(existing.isAutoDelete), title)
    try RabbitQueueSettings.compare("internal", .flag(isInternal), .flag(existing.isInternal), title)
    try RabbitQueueSettings.compare(
      "alternate-exchange", arguments["alternate-exchange"], existing.arguments["alternate-exchange"], title)
  }

  func deleteExchange(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    let name = reader.shortText()
    let flags = reader.octet()
    try RabbitSession.check(reader)
    if name.isEmpty { throw RabbitError(.accessRefused, "operation not permitted on the default exchange") }
    let title = "exchange '\(describe(name))' in vhost '\(settings.virtualHost)'"
    if name.starts(with: "amq.".utf8) {
      throw RabbitError(.accessRefused, "deletion of system \(title) not allowed")
    }
    if flags & 1 != 0, exchanges[name]?.hasBindings == true {
      throw RabbitError(.preconditionFailed, "\(title) in use")
    }
    exchanges[name] = nil
    if flags & 2 == 0 { answer(channel, RabbitMethod.exchangeDeleteOK) }
  }

  // MARK: - Queues

  func declareQueue(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    let name = reader.shortText()
    let flags = reader.octet()
    let arguments = reader.table()
    try RabbitSession.check(reader)
    let queue: RabbitQueue
    if flags & 1 != 0 {
      guard let existing = queuesByName[name] else { throw RabbitError.noQueue(name, in: settings.virtualHost) }
      queue = existing
    } else {
      if flags & 4 != 0 { throw RabbitError(.notImplemented, "exclusive queues") }
      queue = try declaredQueue(name, isDurable: flags & 2 != 0, isAutoDelete: flags & 8 != 0, arguments)
    }
    channel.lastQueue = queue.name
    guard flags & 16 == 0 else { return }
    answer(channel, RabbitMethod.queueDeclareOK) {
      $0.shortText(queue.name)
      $0.long(UInt32(queue.readyCount))
      $0.long(UInt32(queue.consumerCount))
    }
  }

  func declaredQueue(
    _ name: [UInt8], isDurable: Bool, isAutoDelete: Bool, _ arguments: RabbitTable
  ) throws(RabbitError) -> RabbitQueue {
    let title = "queue '\(describe(name))' in vhost '\(settings.virtualHost)'"
    if let existing = queuesByName[name] {
      try existing.settings.compare(arguments, isDurable: isDurable, isAutoDelete: isAutoDelete, name: title)
      return existing
    }
    if name.isEmpty { throw RabbitError(.notImplemented, "queues that the server names") }
    if name.starts(with: "amq.".utf8) {
      throw RabbitError(.accessRefused, "queue name '\(describe(name))' contains reserved prefix 'amq.*'")
    }
    let queueSettings = try RabbitQueueSettings(
      arguments, isDurable: isDurable, isAutoDelete: isAutoDelete, name: title)
    precondition(queues.count < SimulatedRabbitMQ.queuesMaximum, "too many queues")
    let queue = RabbitQueue(name: name, settings: queueSettings, broker: self)
    queue.knowsLifetimeFrom = now + SimulatedRabbitMQ.lifetimeDelay
    queues.append(queue)
    queuesByName[name] = queue
    return queue
  }

  func purge(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    let name = try named(reader.shortText(), on: channel)
    let flags = reader.octet()
    try RabbitSession.check(reader)
    guard let queue = queuesByName[name] else { throw RabbitError.noQueue(name, in: settings.virtualHost) }
    if queue.settings.kind == .stream {
      throw RabbitError(.notImplemented, "queue.purge not supported by stream queues \(title(of: queue))")
    }
    let count = queue.purge(now: now)
    observe(.purged(queue: queue.title, count: count))
    if flags & 1 == 0 { answer(channel, RabbitMethod.queuePurgeOK) { $0.long(UInt32(count)) } }
  }

  func deleteQueue(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    _ = reader.short()
    let name = try named(reader.shortText(), on: channel)
    let flags = reader.octet()
    try RabbitSession.check(reader)
    var count = 0
    if let queue = queuesByName[name] {
      if flags & 3 != 0, queue.settings.kind != .classic {
        let condition = flags & 1 != 0 ? "if-unused" : "if-empty"
        throw RabbitError(
          .notImplemented,
          "cannot delete \(title(of: queue)). queue.delete operations with \(condition) flag set are not supported "
            + "by \(queue.settings.kind.name) queues")
      }
      if flags & 1 != 0, queue.consumerCount > 0 {
        throw RabbitError(.preconditionFailed, "\(title(of: queue)) in use")
      }
      if flags & 2 != 0, queue.readyCount > 0 {
        throw RabbitError(.preconditionFailed, "\(title(of: queue)) not empty")
      }
      count = queue.readyCount
      remove(queue)
    }
    if flags & 4 == 0 { answer(channel, RabbitMethod.queueDeleteOK) { $0.long(UInt32(count)) } }
  }

  /// Deletes a queue with its messages, and notifies its consumers.
  func remove(_ queue: RabbitQueue) {
    queue.isDeleted = true
    observe(.purged(queue: queue.title, count: queue.readyCount + queue.heldCount))
    queuesByName[queue.name] = nil
    queues.removeAll { $0 === queue }
    deletedQueues.append(queue)
    // The order of the exchanges does not matter.
    for exchange in exchanges.values { exchange.forget(queue) }
    for consumer in queue.consumers + queue.waiting where consumer.status != .gone { noticeCancelled(consumer) }
    queue.clear()
    // A deleted queue refuses nothing: publishes that waited for it count as kept.
    for (_, publish) in queue.heldBack { confirmGone(publish) }
    queue.heldBack = []
  }

  // MARK: - Bindings

  func bind(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    let (queue, exchange, key, flags, arguments) = try binding(&reader, hasFlags: true, on: channel)
    exchange.bind(queue, key: key, arguments: arguments)
    if flags & 1 == 0 { answer(channel, RabbitMethod.queueBindOK) }
  }

  func unbind(_ reader: inout RabbitReader, on channel: RabbitChannel) throws(RabbitError) {
    let (queue, exchange, key, _, arguments) = try binding(&reader, hasFlags: false, on: channel)
    exchange.unbind(queue, key: key, arguments: arguments)
    answer(channel, RabbitMethod.queueUnbindOK)
  }

  private func binding(
    _ reader: inout RabbitReader, hasFlags: Bool, on channel: RabbitChannel
  ) throws(RabbitError) -> (RabbitQueue, RabbitExchange, key: [UInt8], flags: UInt8, RabbitTable) {
    _ = reader.short()
    var queueName = reader.shortText()
    let exchangeName = reader.shortText()
    var key = reader.shortText()
    let flags = hasFlags ? reader.octet() : 0
    let arguments = reader.table()
    try RabbitSession.check(reader)
    if queueName.isEmpty, key.isEmpty { key = channel.lastQueue }
    queueName = try named(queueName, on: channel)
    if exchangeName.isEmpty { throw RabbitError(.accessRefused, "operation not permitted on the default exchange") }
    let exchange = exchanges[exchangeName]
    guard let queue = queuesByName[queueName] else { throw RabbitError.noQueue(queueName, in: settings.virtualHost) }
    guard let exchange else { throw RabbitError.noExchange(exchangeName, in: settings.virtualHost) }
    return (queue, exchange, key, flags, arguments)
  }
}
