import PushCore

/// How long commands follow the slots of a cluster: to other nodes for so many times, and while no node has the slot, at growing
/// intervals up to their timeout.
struct RedisRedirects {
  typealias Entry = RedisAdmissionQueue.Entry

  private let timeoutMilliseconds: Int64
  /// Admissions whose slot is between two nodes: asked again at this time.
  private var postponed: [(entry: Entry, at: Instant)] = []

  /// NOSCRIPT and redirects of one command: more is a server that does not know itself.
  static let resendsMaximum: UInt8 = 5
  /// A slot on its way from one node to another is there in milliseconds; one whose node died, in seconds.
  static let postponeMilliseconds: Int64 = 5
  static let postponeMaximumMilliseconds: Int64 = 100

  init(timeoutMilliseconds: Int64) {
    self.timeoutMilliseconds = timeoutMilliseconds
  }

  /// No node has the slot now: it is asked about again soon, and later each time. false: its timeout is over.
  mutating func postpone(_ entry: Entry, now: Instant) -> Bool {
    guard now < entry.deadline else { return false }
    let left = entry.deadline.milliseconds(since: now)
    let waited = timeoutMilliseconds - left
    let delay = min(
      left, max(RedisRedirects.postponeMilliseconds, waited), RedisRedirects.postponeMaximumMilliseconds)
    postponed.append((entry, now.adding(milliseconds: delay)))
    return true
  }

  /// Those that are to be asked again now; one whose deadline has come is not asked any more.
  mutating func takeDue(now: Instant) -> [Entry] {
    if postponed.isEmpty { return [] }
    let due = postponed.filter { $0.at <= now }.map(\.entry)
    postponed.removeAll { $0.at <= now }
    return due
  }

  /// When the next one is to be asked again.
  var next: Instant? { postponed.lazy.map(\.at).min() }
}
