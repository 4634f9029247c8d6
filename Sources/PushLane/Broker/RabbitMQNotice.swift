package import Logging

/// A change of a connection's state, as text, to be logged once.
package struct RabbitMQNotice: Equatable, Sendable {
  package var level: Logger.Level
  package var role: RabbitMQRole
  package var text: String
}

/// Notices of both connections, for the log; if nobody takes them, the newest are dropped.
final class RabbitMQNoticeBox {
  private var waiting: [RabbitMQNotice] = []

  private static let maximum = 64

  func add(_ level: Logger.Level, _ role: RabbitMQRole, _ text: String) {
    guard waiting.count < RabbitMQNoticeBox.maximum else { return }
    waiting.append(RabbitMQNotice(level: level, role: role, text: text))
  }

  func take() -> [RabbitMQNotice] {
    defer { waiting.removeAll() }
    return waiting
  }
}
