import PushCore

/// The messages of one request while RabbitMQ confirms them. Used only on its loop's thread.
final class PublishBatch {
  let deadline: Instant
  /// Whether each message was confirmed; nil: not known yet.
  private var results: [Bool?]
  private var openCount: Int
  private var then: (([Bool]) -> Void)?

  init(count: Int, deadline: Instant, then: @escaping ([Bool]) -> Void) {
    self.deadline = deadline
    results = Array(repeating: nil, count: count)
    openCount = count
    self.then = then
  }

  var isAnswered: Bool { then == nil }

  /// Records whether RabbitMQ confirmed a message.
  func settle(_ index: Int, isConfirmed: Bool) {
    guard results[index] == nil else { return }
    results[index] = isConfirmed
    openCount -= 1
    if openCount == 0 { answer() }
  }

  /// Reports the results. A message without a confirm counts as not confirmed, although RabbitMQ may have stored it.
  func answer() {
    then?(results.map { $0 ?? false })
    then = nil
  }
}
