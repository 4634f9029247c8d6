import PushCore

/// The sends that wait for room in one pool, and the pool's share of the lane. An empty queue costs nothing.
///
/// Each class has a part. A transactional send takes the next free stream, and beside it bulk leaves some free: streams that were taken
/// together become free together, so the next one may be as far away as an answer. While both wait, every tenth stream is bulk's, so that
/// bulk never stops.
///
/// What is read of it for each push is read as `mutating`, which works in place: else the compiler copies the whole, 400 bytes, for each call.
struct PoolQueue {
  /// The sends of one class, first come, first served.
  private struct Part {
    /// Readmitted sends, which leave before the others.
    var admittedAgain = SendList()
    var waiting = SendList()
    /// The number of sends that are being readmitted.
    var asking = 0
    /// Started sends that have no ending: being admitted, waiting, or on the wire.
    var held = 0
    /// Jobs of which something was sent, until they are settled.
    var jobsSent = 0
    /// Requests on the wire, without those of orphans.
    var inFlight = 0
    var pace = PaceState()
    /// Sends without an ending, beyond which further ones are put off.
    var stayMaximum = Int.max

    var first: Ticket? { admittedAgain.first ?? waiting.first }
    var count: Int { admittedAgain.count + waiting.count }

    mutating func waitAgain(_ sends: inout SlotTable<SendSlot>) { waiting.prepend(&admittedAgain, of: &sends) }
  }

  /// Transactional sends for each bulk one, while both wait.
  private static let transactionalInARow: UInt8 = 9

  /// For how long after a transactional send bulk leaves streams to the next.
  private static let spareMilliseconds: Int64 = 60_000

  /// By class.
  private var parts: InlineArray<2, Part> = InlineArray(repeating: Part())
  /// Transactional sends since the last bulk one, while both waited.
  private var row: UInt8 = 0
  var share: ShareState
  /// After how many looks the last answer came, if it was good; else 0.
  var answerLooks: UInt32 = 0
  /// When the pool last took a request, and when a job for it was last delivered.
  var lastSent: Instant?
  var lastDelivered: Instant?
  /// And the last transactional one.
  private var lastTransactional: Instant?

  init(limits: ShareState.Limits) { share = ShareState(limits: limits) }

  var count: Int { parts[0].count + parts[1].count }
  var asking: Int { parts[0].asking + parts[1].asking }
  var jobsSent: Int { parts[0].jobsSent + parts[1].jobsSent }

  var inFlight: Int { parts[0].inFlight + parts[1].inFlight }

  mutating func first(of jobClass: JobClass) -> Ticket? { parts[Int(jobClass.rawValue)].first }

  /// The class whose turn it is; nil: nothing waits.
  var next: JobClass? {
    mutating get {
      let hasBulk = parts[1].count > 0
      if parts[0].count > 0 { return hasBulk && row >= PoolQueue.transactionalInARow ? .bulk : .transactional }
      return hasBulk ? .bulk : nil
    }
  }

  /// The pool took a request of this class, which is removed next.
  mutating func took(_ jobClass: JobClass, now: Instant) {
    lastSent = now
    switch jobClass {
    case .bulk: row = 0
    case .transactional:
      lastTransactional = now
      row = parts[1].count > 0 ? min(row + 1, PoolQueue.transactionalInARow) : 0
    }
  }

  /// Of a bulk request beside transactional ones, how many of those are in flight; nil: it may take the last room.
  mutating func transactionalInFlight(beside jobClass: JobClass, now: Instant) -> Int? {
    guard jobClass == .bulk, let lastTransactional,
      now.milliseconds(since: lastTransactional) < PoolQueue.spareMilliseconds
    else { return nil }
    return parts[0].inFlight
  }

  mutating func inFlight(_ jobClass: JobClass, _ change: Int) { parts[Int(jobClass.rawValue)].inFlight += change }

  mutating func append(_ ticket: Ticket, to sends: inout SlotTable<SendSlot>) {
    let part = Int(sends[ticket].jobClass.rawValue)
    if sends[ticket].isAskedAgain {
      parts[part].admittedAgain.append(ticket, to: &sends)
    } else {
      parts[part].waiting.append(ticket, to: &sends)
    }
  }

  mutating func popFirst(_ jobClass: JobClass, of sends: borrowing SlotTable<SendSlot>) {
    let part = Int(jobClass.rawValue)
    if parts[part].admittedAgain.first != nil {
      parts[part].admittedAgain.popFirst(of: sends)
    } else {
      parts[part].waiting.popFirst(of: sends)
    }
  }

  /// Puts readmitted sends of the class back before its first send is asked about again, so that it leaves before them. Otherwise,
  /// if answers become old while others are asked about, no send would ever leave.
  mutating func waitAgain(_ jobClass: JobClass, _ sends: inout SlotTable<SendSlot>) {
    parts[Int(jobClass.rawValue)].waitAgain(&sends)
  }

  mutating func asks(_ jobClass: JobClass, _ change: Int) { parts[Int(jobClass.rawValue)].asking += change }

  /// Started sends that have no ending.
  var held: Int { parts[0].held + parts[1].held }
  mutating func holds(_ jobClass: JobClass, _ change: Int) { parts[Int(jobClass.rawValue)].held += change }

  /// Whether the pool takes no further job of this class: it is stuck, and has its share, without so many of them. Bulk counts all that the
  /// pool has; what it has of bulk is no reason to put a transactional job off, which is sent first.
  mutating func isFull(for jobClass: JobClass, without count: Int = 0) -> Bool {
    share.isFull(held: (jobClass == .bulk ? held : parts[0].held) - count)
  }

  mutating func answered(_ jobClass: JobClass) { parts[Int(jobClass.rawValue)].pace.answered() }

  /// The time of a look came: how many sends of each class may stay, by how many the pool answers in so many looks. Each class by itself, as
  /// it has its own deliveries.
  /// - Parameters:
  ///   - minimum: as many may stay in any case.
  ///   - enough: a pool that answers as many has no bound.
  ///   - now: of this turn: what came in it has not asked for room yet.
  mutating func lookAtPace(
    _ sends: borrowing SlotTable<SendSlot>, looks: Int, minimum: Int, enough: Int, now: Instant
  ) {
    for part in 0..<2 {
      var isFull = false
      if let first = parts[part].first { isFull = sends[first].waitingSince < now }
      parts[part].pace.looked(isFull: isFull)
      let stay = parts[part].pace.answers(in: looks) ?? enough
      parts[part].stayMaximum = stay < enough ? max(stay, minimum) : .max
    }
  }

  /// Whether the pool has as many sends of this class, without so many of them, as may stay.
  mutating func hasItsStay(_ jobClass: JobClass, without count: Int) -> Bool {
    parts[Int(jobClass.rawValue)].held - count >= parts[Int(jobClass.rawValue)].stayMaximum
  }

  /// Started sends of this class that are not on the wire.
  mutating func waiting(_ jobClass: JobClass) -> Int {
    parts[Int(jobClass.rawValue)].held - parts[Int(jobClass.rawValue)].inFlight
  }

  mutating func jobsSent(_ jobClass: JobClass) -> Int { parts[Int(jobClass.rawValue)].jobsSent }
  mutating func jobsSent(_ jobClass: JobClass, _ change: Int) { parts[Int(jobClass.rawValue)].jobsSent += change }

  /// Its sends are gone, and with them its requests.
  mutating func removeAll() {
    parts = InlineArray(repeating: Part())
    row = 0
    share.forgetRequests()
  }
}

/// A linked list through the slots of its sends, in order of arrival.
struct SendList {
  private(set) var first: Ticket?
  private var last = Ticket(index: 0, generation: 0)
  private(set) var count = 0

  mutating func append(_ ticket: Ticket, to sends: inout SlotTable<SendSlot>) {
    sends[ticket].nextWaiting = nil
    if first == nil { first = ticket } else { sends[last].nextWaiting = ticket }
    last = ticket
    count += 1
  }

  /// Moves another list's sends before its own.
  mutating func prepend(_ other: inout SendList, of sends: inout SlotTable<SendSlot>) {
    guard let start = other.first else { return }
    if first == nil { last = other.last } else { sends[other.last].nextWaiting = first }
    first = start
    count += other.count
    other = SendList()
  }

  mutating func popFirst(of sends: borrowing SlotTable<SendSlot>) {
    guard let ticket = first else { preconditionFailure("nobody waits") }
    first = sends[ticket].nextWaiting
    count -= 1
  }
}
