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
  /// In order of their deadlines.
  private var batches = RingBuffer<PublishBatch>(growingFrom: 64)
  private let confirmed: (GatewayMessage.Kind) -> Void

  private(set) var confirmedCount: UInt64 = 0
  private(set) var unconfirmedCount: UInt64 = 0

  /// - Parameter confirmed: called for each message that RabbitMQ confirmed.
  init(
    loop: EventLoop, settings: GatewaySettings, notice: @escaping (Logger.Level, String) -> Void,
    confirmed: @escaping (GatewayMessage.Kind) -> Void
  ) {
    self.loop = loop
    self.settings = settings
    self.confirmed = confirmed
    let topology = settings.rabbitmq.topology
    jobs = AMQPExchange(topology.jobsExchange, isMandatory: true)
    registrations = AMQPExchange("", isMandatory: true)
    registrationsKey = Array(topology.registrationsQueue.utf8)
    publisher = ConfirmedPublisher(loop: loop, settings: settings.rabbitmq, notice: notice)
  }

  var isReady: Bool { publisher.isReady && !publisher.isBlocked }
  var openCount: Int { publisher.unconfirmedCount }
  /// No request waits for its confirms.
  var isIdle: Bool { batches.isEmpty }

  /// - Parameter then: receives for each message whether RabbitMQ confirmed it in time.
  func publish(_ messages: [GatewayMessage], then: @escaping ([Bool]) -> Void) {
    guard !messages.isEmpty else { return then([]) }
    let deadline = loop.now.monotonic.adding(milliseconds: settings.confirmMilliseconds)
    let batch = PublishBatch(count: messages.count, deadline: deadline, then: then)
    batches.append(batch)
    for (index, message) in messages.enumerated() {
      guard publisher.unconfirmedCount < settings.unconfirmedMaximum else {
        batch.settle(index, isConfirmed: false)
        continue
      }
      publisher.publishOnce(message.body, as: describe(message.kind, batch, index))
    }
  }

  private func describe(
    _ kind: GatewayMessage.Kind, _ batch: PublishBatch, _ index: Int
  ) -> ConfirmedPublisher.Message {
    let milliseconds = loop.now.unixMilliseconds
    let (exchange, key): (AMQPExchange, [UInt8]) =
      switch kind {
      case .job(let jobClass, _, _, _): (jobs, classKeys[Int(jobClass.rawValue)])
      case .registration: (registrations, registrationsKey)
      }
    return ConfirmedPublisher.Message(
      exchange: exchange, routingKey: key,
      describe: { properties in
        properties.setTimestamp(unixMilliseconds: milliseconds)
        guard case .job(_, let id, _, let trace) = kind else { return }
        properties.setMessageID(id.utf8.span)
        guard let trace else { return }
        properties.addHeader("traceparent", trace.traceparent.utf8.span)
        if !trace.tracestate.isEmpty { properties.addHeader("tracestate", trace.tracestate.utf8.span) }
      },
      then: { [self] isConfirmed in
        if isConfirmed {
          confirmedCount += 1
          confirmed(kind)
        } else {
          unconfirmedCount += 1
        }
        batch.settle(index, isConfirmed: isConfirmed)
      })
  }

  func turn() {
    publisher.turn()
    while let batch = batches.first, batch.isAnswered || batch.deadline <= loop.now.monotonic {
      batch.answer()
      _ = batches.popFirst()
    }
  }

  func close() { publisher.close() }
  var isClosed: Bool { publisher.isClosed }
}
