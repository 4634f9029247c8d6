import PushCore

/// Commands sent to Redis and not answered, in order, with a second index for admissions that are waited for.
struct RedisAdmissionQueue {
  struct Entry {
    enum Kind {
      case admission
      case memory
      case tighten
      case probe
      /// ASKING, or a fate: its reply is ignored.
      case unwatched
    }

    var kind: Kind
    /// The lane has its answer; the reply is dropped when it comes.
    var isAnswered = false
    /// How often it was sent again, after NOSCRIPT or to another node.
    var resends: UInt8 = 0
    var ticket = Ticket(index: 0, generation: 0)
    /// Until when it is asked again if no node has its slot.
    var deadline = Instant.distantFuture
    var request: AdmissionRequest
    /// What this lane knows against sending it, and Redis perhaps not.
    private var objection: LocalObjection?

    init(
      kind: Kind, ticket: Ticket = Ticket(index: 0, generation: 0), deadline: Instant = .distantFuture,
      request: AdmissionRequest
    ) {
      self.kind = kind
      self.ticket = ticket
      self.deadline = deadline
      self.request = request
    }

    /// It is not sent, so it makes no claim. Redis is asked whether another copy was answered.
    mutating func object(_ objection: LocalObjection) {
      self.objection = objection
      request.claim = 0
    }

    /// What the lane is told.
    func answer(_ admission: Admission) -> Admission { objection?.judge(admission) ?? admission }

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
  private var answeredHand = 0

  var count: Int { entries.count }

  mutating func append(_ entry: Entry) {
    entries.append(entry)
  }

  mutating func popFirst() -> Entry? {
    guard let entry = entries.popFirst() else { return nil }
    answeredHand = max(0, answeredHand - 1)
    return entry
  }

  /// Takes the next admission that is waited for. It stays in the queue, answered, until its reply comes.
  mutating func takeUnanswered() -> Entry? {
    while answeredHand < entries.count {
      defer { answeredHand += 1 }
      var entry = entries[offset: answeredHand]
      guard entry.kind == .admission, !entry.isAnswered else { continue }
      entry.isAnswered = true
      entries[offset: answeredHand] = entry
      return entry
    }
    return nil
  }
}
