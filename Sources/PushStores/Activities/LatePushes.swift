import Logging
import PushCore
import PushIO
import PushLane

/// Publishes jobs for devices whose update token came late, each confirmed.
final class LatePushes {
  private struct Push {
    let body: [UInt8]
    let id: [UInt8]
    /// Its number on the connection in use; nil: it is not published, or not any more.
    var number: UInt64?
    var publishedAt: Instant?
    let then: () -> Void
  }

  private let loop: EventLoop
  private let topology: Topology
  private let publisher: RabbitMQClient
  private let exchange: AMQPExchange
  private let properties = AMQPProperties()
  /// Not confirmed, in their order.
  private var pushes: [Push] = []
  private var isBlocked = false
  private var publishedCount: UInt64 = 0
  private var heldUntil: Instant
  private var isClosing = false

  private static let publishChannel: UInt16 = 1
  private static let controlChannel: UInt16 = 2
  private static let refusedPauseMilliseconds: Int64 = 1_000
  /// Much longer than a broker takes, also one whose queues look for a leader.
  private static let confirmMilliseconds: Int64 = 60_000

  init(loop: EventLoop, settings: RabbitMQSettings, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    topology = settings.topology
    exchange = AMQPExchange(topology.jobsExchange, isMandatory: true)
    heldUntil = loop.now.monotonic
    publisher = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings,
      setUp: [
        (.openChannel, LatePushes.publishChannel), (.selectConfirms, LatePushes.publishChannel),
        (.openChannel, LatePushes.controlChannel),
      ] + topology.declarations.map { ($0, LatePushes.controlChannel) }
    ) { level, text in notice(level, "rabbitmq (late pushes): \(text)") }
    publisher.start()
  }

  /// `then`: the broker has it.
  func publish(_ body: [UInt8], id: [UInt8], then: @escaping () -> Void) {
    pushes.append(Push(body: body, id: id, then: then))
  }

  /// Whoever asked for them asks again.
  func forget() { pushes = [] }

  func close() {
    isClosing = true
    pushes = []
    publisher.stop()
  }

  var isClosed: Bool { isClosing && publisher.state == .idle }

  /// One turn, after the loop's poll.
  func turn() {
    while let event = publisher.nextEvent() { take(event) }
    missConfirms()
    guard !isBlocked, loop.now.monotonic >= heldUntil, let connection = publisher.connection else { return }
    for index in pushes.indices where pushes[index].number == nil { publish(index, on: connection) }
  }

  private func publish(_ index: Int, on connection: AMQPConnection) {
    let (body, id) = (pushes[index].body, pushes[index].id)
    properties.reset()
    properties.setMessageID(id.span)
    properties.setTimestamp(unixMilliseconds: loop.now.unixMilliseconds)
    publishedCount += 1
    RabbitMQPublishNumber.add(publishedCount, to: properties)
    pushes[index].number = connection.publish(
      to: exchange, channel: LatePushes.publishChannel, routingKey: JobClass.transactional.name.utf8.span,
      properties: properties, body: body.span)
    pushes[index].publishedAt = loop.now.monotonic
  }

  private func take(_ event: RabbitMQClient.Event) {
    switch event {
    case .up:
      publisher.provedItself()
      isBlocked = publisher.blockedReason != nil
      publishedCount = 0
      lost()
    case .down: lost()
    case .connection(.confirmed(_, let number, let isMultiple)):
      let confirmed = pushes.filter { isSettled($0, number, isMultiple) }
      pushes.removeAll { isSettled($0, number, isMultiple) }
      for push in confirmed { push.then() }
    case .connection(.refused(_, let number, let isMultiple)):
      pause()
      for index in pushes.indices where isSettled(pushes[index], number, isMultiple) { pushes[index].number = nil }
    case .connection(.returned):
      guard let connection = publisher.connection, let number = RabbitMQPublishNumber.ofReturned(connection) else {
        break
      }
      // Its confirm comes all the same, and finds nothing.
      for index in pushes.indices where pushes[index].number == number { pushes[index].number = nil }
      for operation in topology.declarations { connection.request(operation, channel: LatePushes.controlChannel) }
      pause()
    case .connection(.blocked): isBlocked = true
    case .connection(.unblocked):
      isBlocked = false
      // The broker read nothing meanwhile: what it owes a confirm of counts from now on.
      for index in pushes.indices where pushes[index].number != nil { pushes[index].publishedAt = loop.now.monotonic }
    case .connection(.opened), .connection(.completed), .connection(.delivery), .connection(.cancelled),
      .connection(.channelClosed), .connection(.closed):
      break
    }
  }

  private func isSettled(_ push: Push, _ number: UInt64, _ isMultiple: Bool) -> Bool {
    push.number.map { $0 == number || isMultiple && $0 <= number } ?? false
  }

  private func pause() {
    heldUntil = loop.now.monotonic.adding(milliseconds: LatePushes.refusedPauseMilliseconds)
  }

  private func lost() { for index in pushes.indices { pushes[index].number = nil } }

  /// A confirm that does not come for so long is lost.
  private func missConfirms() {
    let limit = loop.now.monotonic.adding(milliseconds: -LatePushes.confirmMilliseconds)
    let isMissed = pushes.contains { $0.number != nil && $0.publishedAt.map { $0 <= limit } ?? false }
    guard publisher.isUp, !isBlocked, isMissed else { return }
    publisher.fail(.timedOut(operation: "the confirm of a late push", milliseconds: LatePushes.confirmMilliseconds))
    lost()
  }
}
