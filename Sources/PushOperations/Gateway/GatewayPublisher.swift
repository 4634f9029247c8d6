import Logging
import PushCore
import PushIO
import PushLane
import PushStores

/// Publishes the messages of requests and reports which of them RabbitMQ confirmed in time. Never publishes a message again: the client may
/// repeat its request. Used only on its loop's thread.
final class GatewayPublisher {
  private let loop: EventLoop
  private let publisher: ConfirmedPublisher
  private let settings: GatewaySettings
  private let jobs: AMQPExchange
  private let registrations: AMQPExchange
  private let registrationsKey: [UInt8]
  private let classKeys = JobClass.allCases.map { Array($0.name.utf8) }
  private let confirmedJobs: ConfirmedJobs
  /// In order of their deadlines.
  private var batches = RingBuffer<PublishBatch>(growingFrom: 64)
  /// Messages that are not published yet. Batches take turns, so that a large one keeps no other waiting.
  private var waiting = RingBuffer<Waiting>(growingFrom: 64)
  /// Messages without a confirm, and their bytes, by the id of the key.
  private var messages: FairBudget<String>
  private var bytes: FairBudget<String>
  /// Complete, and not answered yet.
  private var complete: [PublishBatch] = []

  private struct Waiting {
    let messages: [GatewayMessage]
    let owner: String
    let batch: PublishBatch
    /// The index of the next message.
    var next = 0
  }

  /// Maximum of messages in a turn of the loop, and of a batch until the next one has its turn.
  private static let turnMaximum = 1_000
  private static let partMaximum = 100

  private(set) var confirmedCount: UInt64 = 0
  private(set) var unconfirmedCount: UInt64 = 0

  init(
    loop: EventLoop, settings: GatewaySettings, jobs confirmedJobs: ConfirmedJobs,
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.settings = settings
    self.confirmedJobs = confirmedJobs
    messages = FairBudget(maximum: settings.unconfirmedMaximum)
    bytes = FairBudget(maximum: settings.unconfirmedBytesMaximum)
    let topology = settings.rabbitmq.topology
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    registrations = AMQPExchange("", isMandatory: true)
    registrationsKey = Array(topology.registrationsQueue.utf8)
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
  }

  var isReady: Bool { publisher.isReady && !publisher.isBlocked }
  /// Exchanges and queues that refuse what it publishes.
  var refusing: [String] { publisher.refusedDestinations.map(\.name).sorted() }
  var openCount: Int { publisher.unconfirmedCount }
  /// No request waits for its confirms.
  var isIdle: Bool { batches.isEmpty }

  /// Messages are left for the next turn.
  var hasWork: Bool { !waiting.isEmpty }

  /// - Parameters:
  ///   - owner: the id of the request's key.
  ///   - then: receives the result of each message.
  func publish(_ messages: [GatewayMessage], of owner: String, then: @escaping ([PublishResult]) -> Void) {
    guard !messages.isEmpty else { return then([]) }
    let deadline = loop.now.monotonic.adding(milliseconds: settings.confirmMilliseconds)
    let batch = PublishBatch(count: messages.count, deadline: deadline, then: then)
    batches.append(batch)
    waiting.append(Waiting(messages: messages, owner: owner, batch: batch))
  }

  private func publishWaiting() {
    var left = GatewayPublisher.turnMaximum
    while left > 0, var next = waiting.popFirst() {
      // Its time is over: nothing more of it is published.
      if next.batch.isAnswered { continue }
      let end = min(next.messages.count, next.next + min(left, GatewayPublisher.partMaximum))
      left -= end - next.next
      for index in next.next..<end { publish(next.messages[index], next.owner, next.batch, index) }
      next.next = end
      if end < next.messages.count { waiting.append(next) }
    }
  }

  private func publish(_ message: GatewayMessage, _ owner: String, _ batch: PublishBatch, _ index: Int) {
    if let refusal = take(message.body.count, owner) { return settle(batch, index, refusal) }
    let count = message.body.count
    publisher.publishOnce(
      message.body,
      as: describe(message.kind) { [self] ending in
        messages.give(1, from: owner)
        bytes.give(count, from: owner)
        settle(batch, index, ending == .confirmed ? .confirmed : .unconfirmed)
      })
  }

  /// Why a message of so many bytes cannot be published now; nil: it can, and counts.
  private func take(_ count: Int, _ owner: String) -> PublishResult? {
    if !publisher.isReady { return .disconnected }
    if publisher.isBlocked { return .blocked }
    guard !isFull, messages.take(1, for: owner) else { return .full }
    guard bytes.take(count, for: owner) else {
      messages.give(1, from: owner)
      return .full
    }
    return nil
  }

  /// Nothing is published, whoever asks.
  var isFull: Bool { messages.free == 0 || publisher.unsentBytes >= settings.unsentBytesMaximum }

  private func settle(_ batch: PublishBatch, _ index: Int, _ result: PublishResult) {
    if result == .confirmed { confirmedCount += 1 } else { unconfirmedCount += 1 }
    batch.settle(index, result)
    if batch.isComplete { complete.append(batch) }
  }

  private func describe(
    _ kind: GatewayMessage.Kind, then: @escaping (ConfirmedPublisher.Ending) -> Void
  ) -> ConfirmedPublisher.Message {
    // Jobs are old, newer or over by it: none is better than one that may be hours off.
    let milliseconds = loop.hasRedisTime ? loop.now.unixMilliseconds : nil
    let (exchange, key): (AMQPExchange, [UInt8]) =
      switch kind {
      case .job(let jobClass, _, _, _): (jobs, classKeys[Int(jobClass.rawValue)])
      case .registration: (registrations, registrationsKey)
      }
    return ConfirmedPublisher.Message(
      exchange: exchange, routingKey: key,
      describe: { properties, _ in
        if let milliseconds { properties.setTimestamp(unixMilliseconds: milliseconds) }
        guard case .job(_, let id, _, let trace) = kind else {
          // Two requests for the same increment within a millisecond are two.
          let id = UUIDValue(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
          return properties.setMessageID(id.text.utf8.span)
        }
        properties.setMessageID(id.utf8.span)
        guard let trace else { return }
        properties.addHeader("traceparent", trace.traceparent.utf8.span)
        if !trace.tracestate.isEmpty { properties.addHeader("tracestate", trace.tracestate.utf8.span) }
      },
      then: { [self] ending in
        if ending == .confirmed, case .job(_, let id, let scope, _) = kind { confirmedJobs.store(id, in: scope) }
        then(ending)
      })
  }

  func turn() {
    publishWaiting()
    publisher.turn()
  }

  /// Answers the batches that are complete or whose time is over. Call it after the loop's flush: whoever has an answer may ask any gateway for
  /// the job, so its id must be on its way to Redis.
  func answer() {
    for batch in complete { batch.answer() }
    complete.removeAll(keepingCapacity: true)
    while let batch = batches.first, batch.isAnswered || batch.deadline <= loop.now.monotonic {
      batch.answer()
      _ = batches.popFirst()
    }
  }

  func close() { publisher.close() }
  var isClosed: Bool { publisher.isClosed }
}
