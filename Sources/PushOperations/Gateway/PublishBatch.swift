import PushCore

/// The messages of one request while RabbitMQ confirms them. Belongs to the thread of its loop.
final class PublishBatch {
  let deadline: Instant
  /// nil: not settled.
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

  /// RabbitMQ confirmed a message, or will not.
  func settle(_ index: Int, isConfirmed: Bool) {
    guard results[index] == nil else { return }
    results[index] = isConfirmed
    openCount -= 1
    if openCount == 0 { answer() }
  }

  /// What is not confirmed now counts as not confirmed. It may be published all the same.
  func answer() {
    then?(results.map { $0 ?? false })
    then = nil
  }
}
