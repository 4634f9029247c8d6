package import PushCore
import Synchronization

/// Turns reported states into notices of changes: "Redis is down", "Redis is up". Any thread may report states, at any rate.
///
/// A subject that flaps is logged at most `burst` times a minute; after that, `due` gives its final state.
package final class LogNotices: Sendable {
  /// A change to log.
  package struct Notice: Equatable, Sendable {
    package var subject: String
    package var state: String
    /// Changes since the last notice that were suppressed.
    package var suppressed: Int
    /// When it came into this state; earlier than now if that was suppressed.
    package var changedAt: Instant
  }

  private struct Subject {
    /// What was logged last.
    var logged: String?
    /// What was reported last.
    var state: String
    var changedAt: Instant
    var suppressed = 0
    /// Notices in the minute that began at `minute`.
    var count = 0
    var minute: Instant
  }

  /// Subjects beyond this are dropped. They come from the configuration, so there are few.
  private static let subjectsMaximum = 1024
  private static let minuteMilliseconds: Int64 = 60_000

  private let burst: Int
  private let subjects = Mutex<[String: Subject]>([:])

  /// `burst`: maximum of notices per subject and minute.
  package init(burst: Int = 4) {
    precondition(burst > 0)
    self.burst = burst
  }

  /// A subject is in this state. Returns what to log; nil if it was logged before, or too much was logged recently. `isInitial`: this state
  /// needs no notice if it is the first.
  package func report(_ subject: String, _ state: String, isInitial: Bool = false, now: Instant) -> Notice? {
    subjects.withLock { subjects in
      guard var entry = subjects[subject] else {
        guard subjects.count < Self.subjectsMaximum else { return nil }
        subjects[subject] = Subject(logged: state, state: state, changedAt: now, count: isInitial ? 0 : 1, minute: now)
        return isInitial ? nil : Notice(subject: subject, state: state, suppressed: 0, changedAt: now)
      }
      defer { subjects[subject] = entry }
      guard entry.state != state else { return nil }
      entry.state = state
      entry.changedAt = now
      return tell(subject, &entry, now: now)
    }
  }

  /// Subjects whose last change was suppressed and may be logged now. Called every few seconds.
  package func due(now: Instant) -> [Notice] {
    subjects.withLock { subjects in
      subjects.keys.sorted().compactMap { subject in
        guard var entry = subjects[subject], entry.suppressed > 0 else { return nil }
        defer { subjects[subject] = entry }
        // The pending change is counted already.
        entry.suppressed -= 1
        if let notice = tell(subject, &entry, now: now) { return notice }
        return nil
      }
    }
  }

  private func tell(_ subject: String, _ entry: inout Subject, now: Instant) -> Notice? {
    if now.milliseconds(since: entry.minute) >= Self.minuteMilliseconds {
      entry.minute = now
      entry.count = 0
    }
    guard entry.count < burst else {
      entry.suppressed += 1
      return nil
    }
    let suppressed = entry.suppressed
    entry.suppressed = 0
    // It is back in the state that was last logged, after suppressed changes: nothing to log.
    if entry.logged == entry.state, suppressed > 0 { return nil }
    entry.logged = entry.state
    entry.count += 1
    return Notice(subject: subject, state: entry.state, suppressed: suppressed, changedAt: entry.changedAt)
  }
}
