/// A change of a connection's state, in words, to be logged once.
package struct RabbitMQNotice: Equatable, Sendable {
  package enum Level: Sendable { case info, warning, error }

  package var level: Level
  package var role: RabbitMQRole
  package var text: String
}

/// Notices that wait to be logged; the newest are dropped where nobody takes them.
final class RabbitMQNoticeBox {
  private var waiting: [RabbitMQNotice] = []

  func add(_ notice: RabbitMQNotice, maximum: Int) {
    if waiting.count < maximum { waiting.append(notice) }
  }

  func take() -> [RabbitMQNotice] {
    defer { waiting.removeAll() }
    return waiting
  }
}
