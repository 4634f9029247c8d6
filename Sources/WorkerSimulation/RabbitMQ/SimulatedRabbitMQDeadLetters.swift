/// Dead letters: messages that leave a queue without being acknowledged, and are routed on.
extension SimulatedRabbitMQ {
  /// A message died in a queue. It is handed over at the end of the step, so that no queue changes while another one works.
  func died(_ entry: RabbitEntry, _ reason: RabbitQueue.DeathReason, in queue: RabbitQueue) {
    let isGone = queue.settings.deadLetterExchange == nil
    observe(.died(queue: queue.title, message: entry.message, reason: reason.rawValue, isGone: isGone))
    if !isGone { dead.append((queue, entry, reason)) }
  }

  /// Hands over the messages that died in this step, including those that die during the handover.
  func handOver() {
    while let (queue, entry, reason) = dead.popFirst() {
      let letter = RabbitDeadLetter(message: entry.message, reason: reason, at: now)
      // At most once: handed over without a retry.
      guard queue.settings.keepsDeadLetters, reason != .maxlen else {
        _ = handOver(letter, from: queue)
        continue
      }
      guard now >= queue.handsOverFrom else {
        queue.undelivered.append(
          RabbitDeadLetter(message: letter.message, reason: letter.reason, at: queue.handsOverFrom))
        continue
      }
      tryHandOver(letter, from: queue)
    }
  }

  /// At least once: a dead letter stays until every target queue has it.
  private func tryHandOver(_ letter: RabbitDeadLetter, from queue: RabbitQueue) {
    guard handOver(letter, from: queue) else {
      queue.undelivered.append(
        RabbitDeadLetter(
          message: letter.message, reason: letter.reason, at: now + settings.deadLetterRetryNanoseconds))
      queue.undelivered.sort { $0.at < $1.at }
      return
    }
    guard faults.handedOnTwice > 0 else { return }
    queue.handedOver.append(RabbitDeadLetter(message: letter.message, reason: letter.reason, at: now))
    while queue.handedOver.count > SimulatedRabbitMQ.recentMaximum { _ = queue.handedOver.popFirst() }
  }

  /// Retries dead letters that no queue accepted.
  func retryDeadLetters(of queue: RabbitQueue) {
    while let first = queue.undelivered.first, first.at <= now {
      queue.undelivered.removeFirst()
      tryHandOver(first, from: queue)
    }
  }

  /// Publishes a dead letter to the queue's dead letter exchange. Returns whether a queue has it, and none refused it.
  private func handOver(_ letter: RabbitDeadLetter, from queue: RabbitQueue) -> Bool {
    guard let name = queue.settings.deadLetterExchange else { return true }
    let old = letter.message
    let key = queue.settings.deadLetterRoutingKey ?? old.routingKey
    var properties = RabbitProperties(old.properties) ?? RabbitProperties()
    var headers = properties.headers ?? RabbitTable()
    addDeath(letter, of: queue, expiration: properties.expiration, to: &headers)
    properties.headers = headers
    properties.expiration = nil
    let copy = makeMessage(
      origin: old.number, exchange: name, routingKey: key, properties: properties.bytes, body: old.body)
    let targets = (exchanges[name].map { route($0, key) } ?? []).filter {
      letter.reason == .rejected || !isCycle(to: $0, headers)
    }
    var isRefused = false
    var names: [String] = []
    for target in targets {
      if store(copy, in: target, publish: nil) == false { isRefused = true } else { names.append(target.title) }
    }
    observe(.deadLettered(queue: queue.title, message: old, copy: copy, to: names))
    return !targets.isEmpty && !isRefused
  }

  /// Records a death in a message's headers: the latest first, one entry for each queue and reason.
  private func addDeath(
    _ letter: RabbitDeadLetter, of queue: RabbitQueue, expiration: [UInt8]?, to headers: inout RabbitTable
  ) {
    let reason = RabbitValue.text(letter.reason.rawValue)
    var deaths: [RabbitValue] = []
    if case .array(let earlier)? = headers["x-death"] {
      deaths = earlier
    } else if headers["x-death"] == nil {
      headers["x-first-death-reason"] = reason
      headers["x-first-death-queue"] = .text(queue.name)
      headers["x-first-death-exchange"] = .text(letter.message.exchange)
    }
    let known = deaths.firstIndex {
      guard case .table(let death) = $0 else { return false }
      return death["queue"] == .text(queue.name) && death["reason"] == reason
    }
    if let known, case .table(var death) = deaths.remove(at: known) {
      death["count"] = .number((death["count"]?.number ?? 0) + 1)
      deaths.insert(.table(death), at: 0)
    } else {
      var death = RabbitTable()
      death["count"] = .number(1)
      death["reason"] = reason
      death["queue"] = .text(queue.name)
      death["time"] = .timestamp(UInt64(max(0, settings.unixSecondsAtZero + now / 1_000_000_000)))
      death["exchange"] = .text(letter.message.exchange)
      death["routing-keys"] = .array([.text(letter.message.routingKey)])
      if let expiration { death["original-expiration"] = .text(expiration) }
      deaths.insert(.table(death), at: 0)
    }
    headers["x-death"] = .array(deaths)
  }

  /// Whether a message would loop for ever: it was in this queue before, and no consumer rejected it since.
  private func isCycle(to queue: RabbitQueue, _ headers: RabbitTable) -> Bool {
    guard case .array(let deaths)? = headers["x-death"] else { return false }
    for value in deaths {
      guard case .table(let death) = value else { return false }
      if death["reason"] == .text("rejected") { return false }
      if death["queue"] == .text(queue.name) { return true }
    }
    return false
  }

  /// Settles a publish whose queue is gone.
  func confirmGone(_ publish: RabbitPublish?) {
    guard let publish, publish.channel.answered(publish.number, isRefused: false) else { return }
    publish.channel.confirm(publish.number, at: now)
  }
}
