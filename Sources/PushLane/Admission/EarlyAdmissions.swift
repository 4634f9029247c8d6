import PushCore

/// Admissions of before all of Redis was connected, or known to fail. They wait: a worker that starts gets the jobs back that the one
/// before it had answered.
struct EarlyAdmissions {
  typealias Entry = RedisAdmissionQueue.Entry

  /// Nothing waits any more.
  private(set) var isOver = false
  /// When they are asked in any case.
  private(set) var deadline = Instant.distantFuture
  private var waiting: [Entry] = []

  mutating func append(_ entry: Entry) {
    waiting.append(entry)
  }

  /// Those that waited, once: when Redis is `isSettled`, or at the deadline, which the first call sets. nil: they go on waiting.
  mutating func take(isSettled: Bool, maximumMilliseconds: Int64, now: Instant) -> [Entry]? {
    deadline = min(deadline, now.adding(milliseconds: maximumMilliseconds))
    guard isSettled || now >= deadline else { return nil }
    isOver = true
    defer { waiting = [] }
    return waiting
  }

  /// The deadline is now.
  mutating func hurry(now: Instant) {
    deadline = now
  }
}
