package import PushCore

/// Checks the promise from outside: it sees only what the broker kept and what APNs accepted, and shares no code with the lane. It excuses
/// nothing: no duplicate because a producer published twice, no late job, no wait in a wrong queue, no job held back for a device that is
/// not dead.
package final class Auditor {
  package private(set) var violations: [String] = []
  private var enqueued: Set<Target> = []
  /// Final outcomes that the broker keeps, by target.
  private var outcomes: [Target: [String]] = [:]
  private var identifiers: [Target: String] = [:]
  private var accepted: [Target: Int] = [:]
  /// Targets with an outcome that says that an earlier attempt may have reached APNs.
  package private(set) var marked: Set<Target> = []
  /// Targets of several messages: published again, or delivered twice by a retry queue.
  private var repeated: Set<Target> = []
  /// How often a target had been accepted when its dead letter was last replayed.
  private var acceptedBefore: [Target: Int] = [:]
  /// Events that may legalise one more send or outcome of a target: a redelivery, an ambiguous loss, a repeated publish.
  private var excuses: [Target: Int] = [:]
  /// Targets of pages: the page, the position, and the end that the audience was told.
  var positions: [Target: (page: String, position: Int)] = [:]
  var pages: [String: [Target]] = [:]
  var reportedEnds: [Target: Character] = [:]
  /// Targets whose device was gone when a copy came.
  var skipped: Set<Target> = []
  /// By token: since when the registry lacks it.
  var lostAt: [String: Int64] = [:]
  /// Retry copies that the broker keeps or has kept, by target.
  private var copies: [Target: Int] = [:]
  /// Retry copies that it refused: after five in a row any other queue is allowed.
  private var refusals: [Target: Int] = [:]
  package private(set) var deadLetters: Set<String> = []
  /// When the job's time ends, Unix milliseconds; with several messages, the last one's.
  private var ends: [Target: Int64] = [:]
  /// The earliest possible end: if the time of publishing is unknown, the job's age counts from its first receipt.
  private var earliestEnds: [Target: Int64] = [:]
  private var registeredAt: [Target: Int64] = [:]
  /// By device: when APNs' last answer says that it died, Unix milliseconds.
  private var deadSince: [String: Int64] = [:]
  /// When the admission store was first asked, and when it was last emptied.
  private var askedAt: [UUIDValue: Int64] = [:]
  private var emptiedAt = Int64.min
  /// When it was told the answer.
  private var answeredAt: [UUIDValue: Int64] = [:]
  /// Targets that a lane decided without it: whether another copy is in flight then is unknown.
  private var decidedAlone: Set<UUIDValue> = []
  /// The longest time from the last check of a job to its request.
  private let leaveMilliseconds: Int64 = 1_000
  /// How long a job may be in flight after it was checked: it waits for room, its first request times out, and it is sent once more.
  private let sendGraceMilliseconds: Int64 = 45_000
  /// The additional time that a jump of the clock may cause.
  package var clockGraceMilliseconds: Int64 = 0

  package init() {}

  /// Violations by kind: the number and the first one.
  package var kinds: [(count: Int, first: String)] {
    var found: [String: (count: Int, first: String)] = [:]
    var order: [String] = []
    for violation in violations {
      let kind = String(violation.prefix(while: { $0 != ":" }).filter { !$0.isNumber && $0 != "-" })
      if found[kind] == nil { order.append(kind) }
      found[kind] = (1 + (found[kind]?.count ?? 0), found[kind]?.first ?? violation)
    }
    return order.compactMap { found[$0] }
  }

  func violate(_ what: String) { violations.append(what) }

  // MARK: - Producers

  /// A producer received the target's confirm.
  /// - Parameters:
  ///   - endsAt: when the job expires, Unix milliseconds; `.max` if unknown.
  ///   - endsNotBefore: the earliest possible expiration.
  package func enqueued(
    _ target: Target, endsAt: Int64 = .max, endsNotBefore: Int64 = .max, registeredAt time: Int64? = nil
  ) {
    earliestEnds[target] = endsNotBefore
    enqueued.insert(target)
    ends[target] = max(ends[target] ?? .min, endsAt)
    registeredAt[target] = time
  }

  /// Its producer did not receive the confirm: each message has an end, and both may be in flight at once.
  package func publishedAgain(_ target: Target, endsAt: Int64 = .max) {
    excuse(target)
    repeated.insert(target)
    ends[target] = max(ends[target] ?? .min, endsAt)
  }

  // MARK: - The broker

  package func excuse(_ target: Target) { excuses[target, default: 0] += 1 }

  package func handedOnTwice(_ target: Target) { repeated.insert(target) }

  package func brokerKept(_ published: PublishedOutcome, of target: Target) {
    outcomes[target, default: []].append(published.outcome)
    if published.isAmbiguous { marked.insert(target) }
    if let known = identifiers[target], known != published.apnsID {
      violations.append("published with two apns-ids: \(target)")
    }
    identifiers[target] = published.apnsID
    guard published.isSuppressed, published.outcome == "unregistered" else { return }
    guard let since = deadSince[target.token] else {
      violations.append("held back for a device that nothing marks dead: \(target)")
      return
    }
    if let time = registeredAt[target], time > since {
      violations.append("held back for a device that registered \(time - since) ms after it was marked dead: \(target)")
    }
  }

  /// A copy waits after APNs failed to process the request: the n-th waits in the n-th queue, or, where the job would not
  /// outlive that, in one before.
  package func retried(
    _ target: Target, attempts: Int, delaySeconds: Int, delays: [Int], now: Int64
  ) {
    guard (refusals[target] ?? 0) < 5 else { return }
    let copy = 1 + (copies[target] ?? 0)
    let longest = delays[min(max(attempts, 1), delays.count) - 1]
    let shortest = delays[min(max(min(attempts, copy), 1), delays.count) - 1]
    if delaySeconds > longest {
      violations.append("copy \(copy) after \(attempts) attempts waits \(delaySeconds) s, not \(longest): \(target)")
    }
    // With several messages the auditor does not know which one this is a copy of, and when it ends.
    guard delaySeconds < shortest, !repeated.contains(target) else { return }
    if (earliestEnds[target] ?? .max) - now > Int64(shortest) * 1000 + clockGraceMilliseconds {
      violations.append("copy \(copy) after \(attempts) attempts waits \(delaySeconds) s, not \(shortest): \(target)")
    }
  }

  /// The broker refused a copy.
  package func brokerRefused(_ target: Target) { refusals[target, default: 0] += 1 }

  package func brokerKeptCopy(of target: Target) { copies[target, default: 0] += 1 }

  package func brokerKeptDeadLetter(job: String) { deadLetters.insert(job) }

  /// The broker's delivery limit removed a job: no outcome is published.
  package func brokerGaveUp(_ targets: [Target]) {
    for target in targets { violations.append("taken away by the broker without an outcome: \(target)") }
  }

  /// The lane left a job's dead letter to the broker.
  package func brokerMoved(_ targets: [Target], job: String) {
    brokerKeptDeadLetter(job: job)
    brokerGaveUp(targets.filter { outcomes[$0] == nil })
  }

  /// The lane acknowledged a message: the broker must have kept something for each of its targets.
  package func acknowledged(_ targets: [Target]) {
    for target in targets where copies[target] == nil {
      if outcomes[target] == nil, reportedEnds[target] != "s" {
        violations.append("acknowledged before anything replaced it: \(target)")
      } else if positions[target] != nil, reportedEnds[target] == nil {
        violations.append("acknowledged before its audience was told of its end: \(target)")
      }
    }
  }

  /// The lane named a delivery that it must not name.
  package func misnamedDelivery(_ what: String) { violations.append(what) }

  /// A message or request waits for ever.
  package func didNotRest(_ what: String) { violations.append(what) }

  // MARK: - The admission store

  /// It was asked, whatever the answer.
  package func asked(_ apnsID: UUIDValue, at time: Int64) {
    if askedAt[apnsID] == nil { askedAt[apnsID] = time }
  }

  /// It stored APNs' answer.
  package func answered(_ apnsID: UUIDValue, at time: Int64) {
    if answeredAt[apnsID] == nil { answeredAt[apnsID] = time }
  }

  /// It did not answer in time, and a lane went on without it.
  package func decidedAlone(_ apnsID: UUIDValue) { decidedAlone.insert(apnsID) }

  /// It lost its data: an answered job may be sent again if it is delivered again, and whether a copy came before can no longer be known.
  package func emptied(at time: Int64) {
    emptiedAt = time
    answeredAt = [:]
  }

  // MARK: - APNs

  /// A request came.
  /// - Parameters:
  ///   - now: by the lane's clock, Unix milliseconds.
  ///   - time: by the admission store's.
  package func requested(_ target: Target, _ apnsID: UUIDValue, now: Int64, at time: Int64) {
    if let answered = answeredAt[apnsID], !decidedAlone.contains(apnsID), time > answered + leaveMilliseconds {
      violations.append("sent again \(time - answered) ms after its answer: \(target)")
    }
    if let lost = lostAt[target.token], time > lost + sendGraceMilliseconds {
      violations.append("sent \((time - lost) / 1000) s after its device was forgotten: \(target)")
    }
    guard let end = ends[target], end < .max else { return }
    let late = now - end
    if late > sendGraceMilliseconds + clockGraceMilliseconds {
      violations.append("sent \(late / 1000) s after its end: \(target)")
    }
  }

  package func apnsAccepted(_ target: Target, _ apnsID: UUIDValue? = nil) {
    accepted[target, default: 0] += 1
    guard accepted[target] ?? 0 > 1, repeated.contains(target), let apnsID else { return }
    // The admission store lost its data, so no lane can detect this repetition.
    if let asked = askedAt[apnsID], emptiedAt >= asked { marked.insert(target) }
  }

  /// APNs said when a device died.
  package func apnsUnregistered(_ target: Target, since: Int64) {
    if let time = registeredAt[target], time > since { return }
    deadSince[target.token] = max(since, deadSince[target.token] ?? .min)
  }

  // MARK: - Operators

  /// Its dead letter was published again as a job: one more end and one more send of it are legal. Marks published so far do not count for
  /// the copy: if APNs had accepted the target before and accepts it again, later outcomes must say so.
  package func replayed(_ target: Target) {
    excuse(target)
    expectMarkOfRepetition(target)
    acceptedBefore[target] = accepted[target] ?? 0
    ends[target] = .max
    // Another copy with another end had its own mark, which says nothing about this one.
    let hasOnlyFailed = outcomes[target, default: []].allSatisfy { $0 == "failed" }
    if hasOnlyFailed { marked.remove(target) }
  }

  private func expectMarkOfRepetition(_ target: Target) {
    let count = accepted[target] ?? 0
    // A copy whose device is gone has no outcome, whatever its earlier attempts did.
    guard count > 1, count > acceptedBefore[target] ?? 0, !marked.contains(target), !skipped.contains(target) else {
      return
    }
    violations.append("accepted \(count) times, but without an outcome: \(target)")
  }

  // MARK: - The end

  /// All final outcomes of a job's targets that the broker keeps.
  package func outcomes(ofJob job: String) -> [String] { outcomes.filter { $0.key.job == job }.flatMap(\.value) }

  /// Targets without an outcome.
  package var open: [Target] {
    enqueued.filter { outcomes[$0] == nil && reportedEnds[$0] != "s" }.sorted {
      ($0.job, $0.token) < ($1.job, $1.token)
    }
  }

  /// Everything is at rest: checks that each target has its end, and that nothing happened twice without a reason.
  package func finish() {
    for target in enqueued.sorted(by: { ($0.job, $0.token) < ($1.job, $1.token) }) {
      let outcomes = outcomes[target] ?? []
      let allowed = 1 + (excuses[target] ?? 0)
      if outcomes.isEmpty, reportedEnds[target] != "s" { violations.append("lost: \(target)") }
      checkToldEnd(target, outcomes)
      if outcomes.count > allowed { violations.append("\(outcomes.count) outcomes, \(allowed) explained: \(target)") }
      if (accepted[target] ?? 0) > allowed {
        violations.append("accepted \(accepted[target] ?? 0) times, \(allowed) explained: \(target)")
      }
      expectMarkOfRepetition(target)
      if outcomes.contains("accepted"), accepted[target] == nil {
        violations.append("an outcome says accepted, APNs does not: \(target)")
      }
    }
    for target in Set(outcomes.keys).subtracting(enqueued) {
      violations.append("an outcome of an unknown target: \(target)")
    }
  }
}

/// An outcome as the broker keeps it, read from its body.
package struct PublishedOutcome {
  package var outcome: String
  package var apnsID: String
  package var isAmbiguous: Bool
  package var isSuppressed: Bool
}
