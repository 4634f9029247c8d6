import PushCore

/// Admissions from before all of Redis was connected, or known to fail. They wait, because a starting worker gets jobs again that its
/// predecessor had answered.
struct EarlyAdmissions {
  typealias Entry = RedisAdmissionQueue.Entry

  /// Admissions no longer wait.
  private(set) var isOver = false
  /// When they are asked at the latest.
  private(set) var deadline = Instant.distantFuture
  private var waiting: [Entry] = []

  mutating func append(_ entry: Entry) {
    waiting.append(entry)
  }

  /// Takes the waiting admissions, once: when Redis is `isSettled`, or at the deadline, which the first call sets. nil: they go on waiting.
  mutating func take(isSettled: Bool, maximumMilliseconds: Int64, now: Instant) -> [Entry]? {
    deadline = min(deadline, now.adding(milliseconds: maximumMilliseconds))
    guard isSettled || now >= deadline else { return nil }
    isOver = true
    defer { waiting = [] }
    return waiting
  }

  /// Moves the deadline to now.
  mutating func hurry(now: Instant) {
    deadline = now
  }
}
