import PushCore
import PushIO

/// Publishes registrations to a queue, with confirms. Unconfirmed ones are published again.
final class QueueSender: RegistrationSender {
  private let loop: EventLoop
  private let address: AMQPAddress
  private let queue: String
  private let exchange = AMQPExchange("", isMandatory: true)
  private let properties = AMQPProperties()
  private var connection: AMQPConnection?
  /// The answer to this request says that publishing may begin.
  private var confirmsRequest: UInt32?
  private var isReady = false
  private var isBlocked = false
  private var isClosed = false
  private var isPausing = false
  private var waiting = RingBuffer<[UInt8]>(growingFrom: 16)
  /// By their numbers, on the connection in use.
  private var unconfirmed: [UInt64: [UInt8]] = [:]
  /// The lowest number that is not confirmed.
  private var nextConfirm: UInt64 = 1
  private var lastPublished: UInt64 = 0
  private var counts = RegistrationProgress()

  private static let channel: UInt16 = 1
  private static let unconfirmedMaximum = 1000
  private static let pauseMilliseconds: Int64 = 500

  init(loop: EventLoop, address: AMQPAddress, queue: String) {
    self.loop = loop
    self.address = address
    self.queue = queue
  }

  var progress: RegistrationProgress {
    var progress = counts
    progress.waiting = waiting.count + unconfirmed.count
    return progress
  }

  func send(_ registration: [UInt8]) {
    guard progress.waiting < RegistrationProgress.waitingMaximum else {
      counts.failed += 1
      counts.lastFailure = "too many registrations wait"
      return
    }
    waiting.append(registration)
  }

  func turn() {
    while let event = connection?.nextEvent() { take(event) }
    guard !isClosed, !isPausing, !waiting.isEmpty else { return }
    guard let connection else {
      connect()
      return
    }
    while isReady, !isBlocked, unconfirmed.count < QueueSender.unconfirmedMaximum, let body = waiting.popFirst() {
      lastPublished = connection.publish(
        to: exchange, channel: QueueSender.channel, routingKey: queue.utf8.span, properties: properties, body: body.span
      )
      unconfirmed[lastPublished] = body
    }
  }

  func close() {
    isClosed = true
    connection?.close()
  }

  private func connect() {
    let connection = AMQPConnection(loop: loop, address: address, name: "apns-simulator")
    self.connection = connection
    connection.connect(tls: nil)
  }

  private func take(_ event: AMQPEvent) {
    guard let connection else { return }
    switch event {
    case .opened:
      connection.request(.openChannel, channel: QueueSender.channel)
      confirmsRequest = connection.request(.selectConfirms, channel: QueueSender.channel)
    case .completed(_, let operation, _):
      if operation == confirmsRequest { isReady = true }
    case .confirmed(_, let sequence, let isMultiple):
      counts.delivered += settle(sequence, isMultiple: isMultiple).count
    case .refused(_, let sequence, let isMultiple):
      publishAgain(
        settle(sequence, isMultiple: isMultiple), because: "RabbitMQ refused a registration: is \(queue) full?")
    case .returned:
      // Its confirm, which follows, does not count.
      var body: [UInt8] = []
      connection.copyBody(into: &body)
      counts.delivered -= 1
      publishAgain([body], because: "there is no queue \(queue)")
    case .blocked: isBlocked = true
    case .unblocked: isBlocked = false
    case .channelClosed:
      counts.lastFailure = connection.channelError(QueueSender.channel).map { "\($0)" }
      connection.close()
    case .closed:
      publishAgain(
        unconfirmed.sorted { $0.key < $1.key }.map(\.value), because: connection.failure.map { "\($0)" })
      forgetConnection()
    case .delivery, .cancelled: break
    }
  }

  private func settle(_ sequence: UInt64, isMultiple: Bool) -> [[UInt8]] {
    guard isMultiple else { return unconfirmed.removeValue(forKey: sequence).map { [$0] } ?? [] }
    var settled: [[UInt8]] = []
    while nextConfirm <= sequence {
      if let body = unconfirmed.removeValue(forKey: nextConfirm) { settled.append(body) }
      nextConfirm += 1
    }
    return settled
  }

  /// Requeues registrations before those that were never published, after a pause.
  private func publishAgain(_ bodies: [[UInt8]], because text: String?) {
    for body in bodies.reversed() { waiting.prepend(body) }
    counts.repeated += bodies.count
    if let text { counts.lastFailure = text }
    if isPausing { return }
    isPausing = true
    loop.schedule(afterMilliseconds: QueueSender.pauseMilliseconds) { [weak self] in self?.isPausing = false }
  }

  private func forgetConnection() {
    connection = nil
    confirmsRequest = nil
    isReady = false
    isBlocked = false
    unconfirmed.removeAll()
    nextConfirm = 1
    lastPublished = 0
  }
}
