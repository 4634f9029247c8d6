import PushCore

/// What was sent to Redis and not answered, in order: a ring that doubles, with a second hand for what is overdue.
struct RedisAdmissionQueue {
  struct Entry {
    enum Kind {
      case admission
      case memory
      case tighten
      case probe
      /// ASKING: says nothing that matters.
      case asking
    }

    var kind: Kind
    /// The lane was answered; the reply is dropped when it comes.
    var isAnswered = false
    /// Sent again after NOSCRIPT, or to another node, so often.
    var resends: UInt8 = 0
    var ticket = Ticket(index: 0, generation: 0)
    /// When it is overdue if Redis is silent, and in any case.
    var deadline = Instant.distantFuture
    var lastDeadline = Instant.distantFuture
    var request: AdmissionRequest

    /// To be sent once more; nil: that was done too often.
    var again: Entry? {
      guard resends < RedisRedirects.resendsMaximum else { return nil }
      var again = self
      again.resends += 1
      return again
    }

    static let noRequest = AdmissionRequest(device: TargetKey(high: 0, low: 0), apnsID: UUIDValue(high: 0, low: 0))
  }

  private var entries: [Entry] = Array(repeating: Entry(kind: .memory, request: Entry.noRequest), count: 256)
  /// Positions count up for ever; the ring holds those from `head` to `end`.
  private var head = 0
  private var end = 0
  /// Everything before this was answered, or waits for nobody.
  private var overdueHand = 0
  private let timeoutMilliseconds: Int64
  /// When a reply came last.
  private var lastReply = Instant(nanoseconds: .min)

  init(timeoutMilliseconds: Int64) {
    self.timeoutMilliseconds = timeoutMilliseconds
  }

  var count: Int { end - head }

  /// The server said something: it answers.
  mutating func replied(now: Instant) {
    lastReply = now
  }

  mutating func append(_ entry: Entry) {
    if count == entries.count { grow() }
    entries[end & (entries.count - 1)] = entry
    end += 1
  }

  mutating func popFirst() -> Entry? {
    guard head < end else { return nil }
    let entry = entries[head & (entries.count - 1)]
    head += 1
    overdueHand = max(overdueHand, head)
    return entry
  }

  /// Takes the next admission whose deadline passed; it stays in the queue, answered, until its reply comes. Which of its two
  /// deadlines counts depends on whether any reply has come for as long as one may wait.
  mutating func takeOverdue(now: Instant) -> Entry? {
    let isSilent = now >= silentFrom
    while let position = nextUnanswered() {
      let index = position & (entries.count - 1)
      guard isSilent ? entries[index].deadline <= now : entries[index].lastDeadline <= now else { return nil }
      entries[index].isAnswered = true
      overdueHand = position + 1
      return entries[index]
    }
    return nil
  }

  /// When the next answer is overdue if nothing comes until then.
  mutating func nextDeadline() -> Instant? {
    nextUnanswered().map { entries[$0 & (entries.count - 1)].deadline }
  }

  /// The same, where what has come already counts.
  mutating func nextOverdue() -> Instant? {
    nextDeadline().map { max($0, silentFrom) }
  }

  private var silentFrom: Instant { lastReply.adding(milliseconds: timeoutMilliseconds) }

  private mutating func nextUnanswered() -> Int? {
    while overdueHand < end {
      let entry = entries[overdueHand & (entries.count - 1)]
      if entry.kind == .admission, !entry.isAnswered { return overdueHand }
      overdueHand += 1
    }
    return nil
  }

  private mutating func grow() {
    let mask = entries.count - 1
    var larger = (head..<end).map { entries[$0 & mask] }
    larger.append(contentsOf: repeatElement(Entry(kind: .memory, request: Entry.noRequest), count: entries.count))
    entries = larger
    overdueHand -= head
    end -= head
    head = 0
  }
}
