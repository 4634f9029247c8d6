import PushCore

/// Limits for commands that follow a cluster's slots: a number of redirects, and while no node has the slot, retries at growing intervals
/// until the timeout.
struct RedisRedirects {
  typealias Entry = RedisAdmissionQueue.Entry

  private let timeoutMilliseconds: Int64
  /// Admissions whose slot is between two nodes: asked again at this time.
  private var postponed: [(entry: Entry, at: Instant)] = []

  /// Maximum of NOSCRIPT answers and redirects of one command; a server that exceeds it is inconsistent.
  static let resendsMaximum: UInt8 = 5
  /// A slot moves from one node to another in milliseconds; if its node died, it takes seconds.
  static let postponeMilliseconds: Int64 = 5
  static let postponeMaximumMilliseconds: Int64 = 100

  init(timeoutMilliseconds: Int64) {
    self.timeoutMilliseconds = timeoutMilliseconds
  }

  /// No node has the slot now: ask again soon, and later each time. false: its timeout is over.
  mutating func postpone(_ entry: Entry, now: Instant) -> Bool {
    guard now < entry.deadline else { return false }
    let left = entry.deadline.milliseconds(since: now)
    let waited = timeoutMilliseconds - left
    let delay = min(
      left, max(RedisRedirects.postponeMilliseconds, waited), RedisRedirects.postponeMaximumMilliseconds)
    postponed.append((entry, now.adding(milliseconds: delay)))
    return true
  }

  /// Those to ask again now, unless their deadline has passed.
  mutating func takeDue(now: Instant) -> [Entry] {
    if postponed.isEmpty { return [] }
    let due = postponed.filter { $0.at <= now }.map(\.entry)
    postponed.removeAll { $0.at <= now }
    return due
  }

  /// When the next one must be asked again.
  var next: Instant? { postponed.lazy.map(\.at).min() }
}
