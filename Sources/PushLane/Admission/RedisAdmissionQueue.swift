import PushCore

/// Commands sent to Redis and not answered, in order, with a second index for overdue ones.
struct RedisAdmissionQueue {
  struct Entry {
    enum Kind {
      case admission
      case memory
      case tighten
      case probe
      /// ASKING: its reply is ignored.
      case asking
    }

    var kind: Kind
    /// The lane has its answer; the reply is dropped when it comes.
    var isAnswered = false
    /// How often it was sent again, after NOSCRIPT or to another node.
    var resends: UInt8 = 0
    var ticket = Ticket(index: 0, generation: 0)
    /// When it is overdue if Redis is silent, and when it is overdue in any case.
    var deadline = Instant.distantFuture
    var lastDeadline = Instant.distantFuture
    var request: AdmissionRequest

    /// The entry to send once more; nil: that was done too often.
    var again: Entry? {
      guard resends < RedisRedirects.resendsMaximum else { return nil }
      var again = self
      again.resends += 1
      return again
    }

    static let noRequest = AdmissionRequest(device: TargetKey(high: 0, low: 0), apnsID: UUIDValue(high: 0, low: 0))
  }

  private var entries = RingBuffer<Entry>(growingFrom: 256)
  /// How many of the oldest entries were answered, or are not waited for.
  private var overdueHand = 0
  private let timeoutMilliseconds: Int64
  /// When the last reply came.
  private var lastReply = Instant(nanoseconds: .min)

  init(timeoutMilliseconds: Int64) {
    self.timeoutMilliseconds = timeoutMilliseconds
  }

  var count: Int { entries.count }

  /// The server replied: it works.
  mutating func replied(now: Instant) {
    lastReply = now
  }

  mutating func append(_ entry: Entry) {
    entries.append(entry)
  }

  mutating func popFirst() -> Entry? {
    guard let entry = entries.popFirst() else { return nil }
    overdueHand = max(0, overdueHand - 1)
    return entry
  }

  /// Takes the next admission whose deadline passed. It stays in the queue, answered, until its reply comes. Which of its two deadlines
  /// counts depends on whether any reply has come within the timeout.
  mutating func takeOverdue(now: Instant) -> Entry? {
    guard let offset = nextUnanswered() else { return nil }
    var entry = entries[offset: offset]
    guard (now >= silentFrom ? entry.deadline : entry.lastDeadline) <= now else { return nil }
    entry.isAnswered = true
    entries[offset: offset] = entry
    overdueHand = offset + 1
    return entry
  }

  /// When the next answer is overdue if nothing comes until then.
  mutating func nextDeadline() -> Instant? {
    nextUnanswered().map { entries[offset: $0].deadline }
  }

  /// The same, if what has already come counts.
  mutating func nextOverdue() -> Instant? {
    nextDeadline().map { max($0, silentFrom) }
  }

  private var silentFrom: Instant { lastReply.adding(milliseconds: timeoutMilliseconds) }

  private mutating func nextUnanswered() -> Int? {
    while overdueHand < entries.count {
      let entry = entries[offset: overdueHand]
      if entry.kind == .admission, !entry.isAnswered { return overdueHand }
      overdueHand += 1
    }
    return nil
  }
}
