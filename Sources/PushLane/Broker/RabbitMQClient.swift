package import Logging
import PushCore
package import PushIO

/// One of a lane's two connections: connects, sets up, and reconnects after a loss, trying the addresses in turn.
///
/// Its owner pulls, as from the connection. It reports `up` when its whole set-up was answered, and `down` once for each `up`.
package final class RabbitMQClient {
  package enum State: Equatable {
    /// Not started, or stopped. → connecting
    case idle
    /// A connection is being opened. → settingUp, waiting
    case connecting
    /// The set-up was sent; this is its last operation. → up, waiting
    case settingUp(last: UInt32)
    /// In use. → waiting
    case up
    /// Lost; tries again when its wait is over. → connecting
    case waiting
    /// Closing. → idle
    case closing
  }

  package enum Event {
    case up
    case down
    case connection(AMQPEvent)
  }

  package private(set) var state = State.idle
  /// The connection that is connecting, in use or closing.
  private var current: AMQPConnection?
  /// Why it is down; nil while it is up, or was never up.
  private(set) var failure: AMQPError?
  private(set) var lostCount: UInt64 = 0

  private let loop: EventLoop
  private let role: RabbitMQRole
  private let settings: RabbitMQSettings
  private let setUp: [(operation: AMQPOperation, channel: UInt16)]
  private let notice: (Logger.Level, String) -> Void
  private var backoff: Backoff
  private var random: SeededRandom
  private var addressIndex = 0
  private var reportedFailure: AMQPError?
  /// The previous connection, while it closes.
  private var leaving: AMQPConnection?

  package init(
    loop: EventLoop, role: RabbitMQRole, settings: RabbitMQSettings,
    setUp: [(operation: AMQPOperation, channel: UInt16)],
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.role = role
    self.settings = settings
    self.setUp = setUp
    self.notice = notice
    backoff = Backoff(
      initialMilliseconds: settings.reconnectInitialMilliseconds,
      maximumMilliseconds: settings.reconnectMaximumMilliseconds)
    random = SeededRandom(seed: settings.randomSeed &+ (role == .consumer ? 1 : 2))
  }

  package var isUp: Bool { state == .up }

  /// The connection in use; nil while it is not up.
  package var connection: AMQPConnection? { isUp ? current : nil }

  /// Why the broker takes no publishes; nil while it does.
  package var blockedReason: String? { current?.blockedReason }

  /// Connects, unless it does already.
  package func start() {
    guard state == .idle else { return }
    connect()
  }

  /// Closes and does not reconnect.
  package func stop() {
    switch state {
    case .idle, .closing:
      break
    case .waiting:
      state = .idle
    case .connecting, .settingUp, .up:
      state = .closing
      current?.close()
    }
  }

  /// The connection was useful: after the next loss the first wait is the shortest.
  package func provedItself() {
    backoff.succeeded()
    reportedFailure = nil
  }

  /// Closes the connection for this reason, and reconnects.
  package func fail(_ error: AMQPError) {
    leave()
    lost(error)
  }

  /// Like `fail`, if there is a connection.
  func restart(_ reason: AMQPError) {
    switch state {
    case .connecting, .settingUp, .up: fail(reason)
    case .idle, .waiting, .closing: break
    }
  }

  /// The next event; `takesDeliveries` as for `AMQPConnection`.
  package func nextEvent(takesDeliveries: Bool = true) -> Event? {
    if let leaving {
      while leaving.nextEvent() != nil {}
      if leaving.isClosed { self.leaving = nil }
    }
    guard let connection = current else { return nil }
    while let event = connection.nextEvent(takesDeliveries: takesDeliveries) {
      switch event {
      case .opened:
        begin(connection)
      case .completed(_, let operation, _):
        guard case .settingUp(let last) = state else { return .connection(event) }
        guard operation == last else { continue }
        state = .up
        failure = nil
        notice(.info, "connected to \(address.description) (\(connection.server))")
        if role == .publisher { probeForAlarms() }
        return .up
      case .channelClosed(let channel):
        let error = connection.channelError(channel) ?? .connectionLost(to: address.description, reason: nil)
        return end(error)
      case .closed:
        return end(connection.failure)
      case .delivery, .confirmed, .refused, .returned, .cancelled, .blocked, .unblocked:
        return .connection(event)
      }
    }
    return nil
  }

  private var address: AMQPAddress { settings.addresses[addressIndex] }

  private func connect() {
    let connection = AMQPConnection(
      loop: loop, address: address, name: "herald \(settings.laneName) \(role.rawValue)", options: settings.connection)
    current = connection
    state = .connecting
    connection.connect(tls: address.usesTLS ? settings.tls : nil)
  }

  private func begin(_ connection: AMQPConnection) {
    guard state == .connecting else { return }
    var last: UInt32 = 0
    for (operation, channel) in setUp { last = connection.request(operation, channel: channel) }
    state = .settingUp(last: last)
    // Otherwise heartbeats alone would keep it open for ever.
    loop.schedule(afterMilliseconds: settings.setUpMilliseconds) { [weak self, lostCount] in
      guard let self, self.lostCount == lostCount, case .settingUp = state else { return }
      fail(.timedOut(operation: "the set-up of a connection", milliseconds: settings.setUpMilliseconds))
    }
  }

  /// Now and every minute.
  private func probeForAlarms() {
    guard let connection, let channel = setUp.last?.channel else { return }
    if connection.blockedReason == nil {
      let (key, body) = (Array(AMQPAlarmProbe.routingKey.utf8), AMQPAlarmProbe.body)
      _ = connection.publish(
        to: AMQPExchange(settings.topology.retryExchange, isMandatory: false), channel: channel, routingKey: key.span,
        properties: AMQPProperties(), body: body.span)
    }
    // No weak reference to the connection: with one, each of its retains, several a job, would take the slow path.
    loop.schedule(afterMilliseconds: settings.alarmProbeMilliseconds) { [weak self, lostCount] in
      guard let self, self.lostCount == lostCount else { return }
      probeForAlarms()
    }
  }

  private func end(_ error: AMQPError?) -> Event? {
    let wasUp = state == .up
    if state == .closing {
      state = .idle
      current = nil
      return .down
    }
    leave()
    lost(error ?? .connectionLost(to: address.description, reason: nil))
    return wasUp ? .down : nil
  }

  private func leave() {
    guard let current, !current.isClosed else { return }
    current.close()
    leaving = current
  }

  private func lost(_ error: AMQPError) {
    current = nil
    failure = error
    lostCount += 1
    let tried = address
    addressIndex = (addressIndex + 1) % settings.addresses.count
    let wait = backoff.failed(random: random.next())
    if error != reportedFailure {
      reportedFailure = error
      let level: Logger.Level
      if case .mismatch = error { level = .error } else { level = .warning }
      let place = error.namesPeer ? "" : " (\(tried.description))"
      notice(level, "\(error)\(place); trying again")
    }
    state = .waiting
    loop.schedule(afterMilliseconds: wait) { [weak self] in
      guard let self, state == .waiting else { return }
      connect()
    }
  }
}
