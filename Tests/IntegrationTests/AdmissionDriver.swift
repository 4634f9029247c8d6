import PushCore
import PushIO
import PushLane
import TestSupport

/// Drives one admission store as a lane would, for the scenarios in which memory and Redis must give the same answers.
final class AdmissionDriver<State: AdmissionStore> {
  var state: State
  private let loop: EventLoop
  private var nextIndex: UInt32 = 0
  private var points = OrderPoints()
  /// By the number of the job.
  private var given: [UInt64: Int64] = [:]
  /// Where the claims' numbers start. Lanes draw theirs at random.
  private let claimBase = UInt32.random(in: 1 ... .max / 2)
  /// Answers that came while the driver waited for another one.
  private var admissions: [Ticket: Admission] = [:]
  /// Time that a test adds to the real time. Only memory sees it: Redis has its own clock.
  var skippedMilliseconds: Int64 = 0

  init(_ state: State, loop: EventLoop) {
    self.state = state
    self.loop = loop
  }

  var now: Now {
    Now(
      monotonic: loop.now.monotonic.adding(milliseconds: skippedMilliseconds),
      unixMilliseconds: loop.now.unixMilliseconds + skippedMilliseconds)
  }

  /// One turn of the lane. Every ticket is answered at most once.
  func turn() throws(TestFailure) {
    loop.poll(maximumWaitMilliseconds: 1)
    while let (ticket, admission) = state.nextAdmission(now: now) {
      if admissions.updateValue(admission, forKey: ticket) != nil { throw TestFailure("\(ticket) was answered twice") }
    }
    state.flush(now: now)
    loop.flush()
  }

  func turn(forMilliseconds milliseconds: Int64) throws(TestFailure) {
    let end = loop.now.monotonic.adding(milliseconds: milliseconds)
    while loop.now.monotonic < end { try turn() }
  }

  /// Turns until the condition holds; throws after `seconds`.
  func turn(untilWithinSeconds seconds: Int64 = 15, _ what: String, _ condition: () -> Bool) throws(TestFailure) {
    if condition() { return }
    // The loop's clock shows its last turn, which may be long ago.
    try turn()
    let end = loop.now.monotonic.adding(milliseconds: seconds * 1000)
    while !condition() {
      guard loop.now.monotonic < end else {
        let redis = state as? RedisAdmissionStore
        let trouble = redis.map { "\($0.counters), \($0.degradation(of: .duplicates) ?? "not degraded")" } ?? ""
        throw TestFailure("after \(seconds) s still not: \(what) \(trouble)")
      }
      try turn()
    }
  }

  /// - Parameters:
  ///   - firstSeen: when the job was first received, if it comes back from a retry queue.
  ///   - earlier: the claim that this copy carries.
  ///   - timestamp: of its message, Unix seconds.
  ///   - point: of a first copy, or one that this driver has not seen. The others bring theirs.
  ///   - enqueuedAt: by its producer's clock.
  ///   - publishedAt: at the earliest.
  ///   - isDropped: if it is over its rate.
  ///   - isRedelivered: the broker delivered it before.
  ///   - own: its claim, if it was admitted, waited, and asks again.
  ///   - asksAgain: it was not admitted, and asks again.
  func ask(
    _ job: borrowing PushJob, id: UInt64, target: Int = 0, firstSeen: Int64? = nil, earlier: UInt32 = 0,
    takeover: Takeover = .none, isOver: Bool = false, timestamp: Int64? = nil, point: Int64? = nil,
    enqueuedAt: Int64? = nil, publishedAt: Int64? = nil, isDropped: Bool = false, isRedelivered: Bool = false,
    own: UInt32? = nil, asksAgain: Bool = false
  ) -> Ticket {
    nextIndex += 1
    let ticket = Ticket(index: nextIndex, generation: 1)
    let isFirst = firstSeen == nil && own == nil && !asksAgain
    let known = isFirst ? nil : given[id]
    let place = point ?? known ?? points.next(timestamp: timestamp, receivedAt: firstSeen ?? now.unixMilliseconds)
    given[id] = place
    let arrival = JobArrival(
      enqueuedAt: enqueuedAt ?? firstSeen ?? now.unixMilliseconds,
      order: JobOrder(
        sequence: job.sequence, timestamp: timestamp,
        point: place, way: isFirst ? .first : .returning),
      claim: isOver ? 0 : own ?? claim(of: ticket), earlierClaim: own ?? earlier, isReturning: firstSeen != nil,
      isRedelivered: isRedelivered, publishedAt: publishedAt ?? firstSeen ?? 0, takeover: takeover,
      isDropped: isDropped, hasAsked: own != nil || asksAgain)
    state.admit(
      job, device: TargetKey(job, target: target), apnsID: uuid(id), arrival: arrival, ticket: ticket, now: now)
    return ticket
  }

  /// The job's claim, if it was admitted.
  func claim(of ticket: Ticket) -> UInt32 { claimBase + ticket.index }

  func answer(_ ticket: Ticket, withinSeconds seconds: Int64 = 5) throws(TestFailure) -> Admission {
    try turn(untilWithinSeconds: seconds, "an answer for \(ticket)") { admissions[ticket] != nil }
    guard let admission = admissions.removeValue(forKey: ticket) else { throw TestFailure("no answer") }
    return admission
  }

  func admit(_ job: borrowing PushJob, id: UInt64, target: Int = 0) throws(TestFailure) -> Admission {
    try answer(ask(job, id: id, target: target))
  }

  func remember(_ outcome: RememberedOutcome, of job: borrowing PushJob, id: UInt64, target: Int = 0) {
    state.remember(outcome, device: TargetKey(job, target: target), apnsID: uuid(id), now: now)
  }

  func rememberFate(_ outcome: RememberedOutcome, claim: UInt32, of job: borrowing PushJob, id: UInt64) {
    state.rememberFate(outcome, claim: claim, device: TargetKey(job, target: 0), apnsID: uuid(id), now: now)
  }

  private func uuid(_ id: UInt64) -> UUIDValue {
    UUIDValue(high: id &* 0x9E37_79B9_7F4A_7C15, low: id)
  }
}

extension AdmissionDriver<RedisAdmissionStore> {
  /// Turns until the server has run the writes that it missed. The counter counts a write when it is sent. A later command on the same
  /// connection is answered only after the server ran it.
  func catchUp(_ count: UInt64, withinSeconds seconds: Int64 = 5) throws(TestFailure) {
    try turn(untilWithinSeconds: seconds, "told Redis") { state.counters.caughtUp >= count }
    _ = try admit(makeJob(token: "behind"), id: .max)
  }
}

/// A job with these fields and nothing else.
func makeJob(
  token: String, topic: String = "com.example.app", environment: APNsEnvironment = .production,
  registeredAt: Int64? = nil, kind: PushJob.TargetKind = .token, type: PushType = .alert, collapseID: String = "",
  sequence: Int64? = nil
) -> PushJob {
  var job = PushJob()
  job.bytes = Array((topic + token + collapseID).utf8)
  job.app = ByteRange(start: 0, count: topic.utf8.count)
  job.pushType = type
  job.collapseID = ByteRange(start: job.bytes.count - collapseID.utf8.count, count: collapseID.utf8.count)
  job.topic = ByteRange(start: 0, count: topic.utf8.count)
  job.targets = [ByteRange(start: topic.utf8.count, count: token.utf8.count)]
  job.targetKind = kind
  job.environment = environment
  job.tokenRegisteredAt = registeredAt
  job.sequence = sequence
  return job
}

/// The kinds of an admission, to compare where the numbers do not matter.
indirect enum Answered: Hashable {
  case proceed
  case duplicate(RememberedOutcome)
  case dead(Int64)
  case limited
  case superseded
  case behind
  case claimed
  case repeated(Answered)

  init(_ admission: Admission) {
    switch admission {
    case .proceed: self = .proceed
    case .duplicate(let outcome): self = .duplicate(outcome)
    case .dead(let mark): self = .dead(mark)
    case .limited: self = .limited
    case .superseded: self = .superseded
    case .behind: self = .behind
    case .claimed: self = .claimed
    case .repeated(let admission): self = .repeated(Answered(admission))
    }
  }
}
