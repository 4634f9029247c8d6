import PushCore

/// The messages of one request while RabbitMQ confirms them. Used only on its loop's thread.
final class PublishBatch {
  let deadline: Instant
  /// nil: not known yet.
  private var results: [PublishResult?]
  private var openCount: Int
  private var then: (([PublishResult]) -> Void)?

  init(count: Int, deadline: Instant, then: @escaping ([PublishResult]) -> Void) {
    self.deadline = deadline
    results = Array(repeating: nil, count: count)
    openCount = count
    self.then = then
  }

  /// Every message has a result.
  var isComplete: Bool { openCount == 0 }
  var isAnswered: Bool { then == nil }

  func settle(_ index: Int, _ result: PublishResult) {
    guard results[index] == nil else { return }
    results[index] = result
    openCount -= 1
  }

  /// Reports the results. A message without one counts as not confirmed, although RabbitMQ may have stored it.
  func answer() {
    then?(results.map { $0 ?? .unconfirmed })
    then = nil
  }
}
