import APNsSimulator
import PushCore

/// Audits a world from outside: what producers got confirmed, what RabbitMQ stores, what APNs accepted. It shares no code
/// with the workers.
package final class WorkerAuditor {
  /// A target's outcome, as analytics receives it.
  private struct Outcome {
    let apnsID: String
    let name: String
    let isAmbiguous: Bool
  }

  private struct Target: Hashable {
    let job: String
    /// Empty: the job has no readable target.
    let token: String
  }

  package var violations: [String] = []
  private let faults: Set<WorkerFault>
  private var jobs: [String: SimulatedJob] = [:]
  private var order: [String] = []
  private var outcomes: [Target: [Outcome]] = [:]
  /// Targets without an outcome.
  private var missing = 0
  /// Jobs of which Redis may have lost data.
  private var jobsWithLostData: Set<String> = []
  /// Jobs among the dead letters, which need no outcome.
  private var excused: Set<String> = []
  /// Jobs that were isolated behind others: each waits for all before it, which the fleet sends one by one.
  private var isolated: Set<String> = []
  /// The number of messages in the queue of isolated jobs.
  private var isolatedCount = 0
  /// When an outcome first reported a token as dead, Unix milliseconds.
  private var knownDead: [String: Int64] = [:]
  /// Provider tokens created by workers that ended.
  private var tokensMade: UInt64 = 0
  private var rates = RateAuditor()
  /// One for each credential.
  private let providerTokens: UInt64

  /// Sets what the audit of the rates expects.
  /// - Parameters:
  ///   - limits: the configured limits.
  ///   - hasBroadcasts: broadcasts, which have no rate, are sent too.
  func expectRates(_ limits: Set<RateLimit>, hasBroadcasts: Bool) {
    rates.limits = limits
    rates.mayBeUnrated = hasBroadcasts
  }

  /// No fault affects workers or Redis, and the network is fast: what one worker stores, all workers know.
  private let isRedisReliable: Bool
  /// What a worker told Redis is there for the next one.
  private let keepsEnds: Bool

  /// Redis keeps what it is told and tells the time, and nothing that was sent arrives seconds later.
  private let keepsOrder: Bool
  /// Pushes that had to be in order.
  package private(set) var orderedCount = 0

  /// A sound job is sent before it expires: faults end long before that. But each lost confirm takes a
  /// minute, and a job that waits for its device's rate waits by Redis' clock.
  private let sendsAllInTime: Bool
  /// A server or the network may stop a lane's progress.
  private let mayStandStill: Bool

  /// - Parameter faults: the possible kinds.
  init(faults: Set<WorkerFault>, _ settings: WorkerWorld.Settings) {
    self.faults = faults
    // A token by a wrong clock is replaced.
    providerTokens = (settings.trouble == nil ? 1 : 2) + (settings.redisErrorMilliseconds == 0 ? 0 : 1)
    sendsAllInTime =
      faults.isDisjoint(with: [.setClock, .jumpRedisClock, .dropConfirms]) && settings.rabbitmq.confirmDropped == 0
    mayStandStill =
      faults.contains(.pauseWorker) || !Set(faults.map(\.family)).isSubset(of: [.worker])
      || settings.rabbitmq.confirmDropped > 0
    keepsEnds = Set(faults.map(\.family)).isDisjoint(with: [.network, .redis, .memory])
    keepsOrder =
      keepsEnds && !faults.contains(.pauseWorker) && settings.network.latency.upperBound <= WorkerAuditor.latencyMaximum
      && settings.network.bytesPerSecond == nil
    isRedisReliable =
      Set(faults.map(\.family)).isDisjoint(with: [.network, .worker, .redis, .memory])
      && settings.network.latency.upperBound <= WorkerAuditor.latencyMaximum && settings.network.bytesPerSecond == nil
  }

  private static let latencyMaximum: Int64 = 2_000_000

  package var publishedCount: Int { order.count }
  /// Targets of the published jobs.
  package var targetCount: Int { order.reduce(0) { $0 + targets(of: jobs[$1]!).count } }
  /// Targets that have an outcome.
  package var reportedCount: Int { outcomes.count }
  /// Outcomes that are marked ambiguous.
  package private(set) var ambiguousCount = 0
  /// Targets that APNs accepted more than once.
  package private(set) var repeatedCount = 0

  private func targets(of job: SimulatedJob) -> [Target] {
    job.targets.isEmpty ? [Target(job: job.id, token: "")] : job.targets.map { Target(job: job.id, token: $0) }
  }

  /// Returns whether this is the first publish of the job.
  func published(_ job: SimulatedJob) -> Bool {
    guard jobs.updateValue(job, forKey: job.id) == nil else { return false }
    order.append(job.id)
    if !excused.contains(job.id) { missing += targets(of: job).count { outcomes[$0] == nil } }
    return true
  }

  /// Redis lost data: it may allow repeats without a mark. It knows everything that is published from now on.
  func redisLostData() { jobsWithLostData.formUnion(order) }

  /// A worker ended.
  func ended(_ worker: SimulatedWorker) {
    tokensMade += worker.tokensMade
    if worker.stoodStill, !mayStandStill { violations.append("\(worker.name) reported a standstill without a cause") }
  }

  /// What waits in a retry queue has a lifetime of its own: where its queue did not know one yet, it would stay there for ever.
  func checkLifetime(_ event: SimulatedRabbitMQEvent) {
    guard case .stored(let queue, let message) = event, queue.contains(".retry."), message.lifetime == nil else {
      return
    }
    violations.append("a message without a lifetime of its own in \(queue)")
  }

  /// Every target has an outcome.
  var isComplete: Bool { missing == 0 }

  func observe(_ event: SimulatedRabbitMQEvent, unixMilliseconds: Int64) {
    switch event {
    case .acknowledged(let queue, _), .died(let queue, _, _, _), .lost(let queue, _):
      if queue.hasSuffix(".jobs.isolated") { isolatedCount -= 1 }
    default: break
    }
    guard case .stored(let queue, let message) = event else { return }
    let body = message.body
    if queue.hasSuffix(".dead"), faults.contains(.deleteQueue), let id = WorkerAuditor.text("id", in: body) {
      excuse(id)
    }
    if queue.hasSuffix(".jobs.isolated") {
      if isolatedCount > 0, let id = WorkerAuditor.text("id", in: body) { isolated.insert(id) }
      isolatedCount += 1
    }
    guard queue.hasSuffix(".results.log") else { return }
    guard let id = WorkerAuditor.text("job_id", in: body), let name = WorkerAuditor.text("outcome", in: body),
      let apnsID = WorkerAuditor.text("apns_id", in: body)
    else {
      violations.append(
        "an outcome without a job, name or apns-id: \(String(decoding: body.prefix(80), as: UTF8.self))")
      return
    }
    let isInvalid = jobs[id]?.targets.isEmpty ?? false
    let target = Target(
      job: id,
      token: isInvalid ? "" : WorkerAuditor.text("token", in: body) ?? WorkerAuditor.text("channel", in: body) ?? "")
    let isAmbiguous = WorkerAuditor.says(#""ambiguous":true"#, in: body)
    if isAmbiguous { ambiguousCount += 1 }
    if name == "unregistered", knownDead[target.token] == nil { knownDead[target.token] = unixMilliseconds }
    if outcomes[target] == nil, !excused.contains(id) { missing -= 1 }
    outcomes[target, default: []].append(Outcome(apnsID: apnsID, name: name, isAmbiguous: isAmbiguous))
  }

  func observe(_ observation: SimulatedRedisObservation) {
    if observation.isViolation { violations.append("Redis: \(observation)") }
    guard case .script(let call, let script) = observation, script.isAdmission, !faults.contains(.jumpRedisClock),
      !faults.contains(where: { $0.family == .memory })
    else { return }
    rates.ran(call)
  }

  /// Excuses a job whose queue was deleted, or whose deliveries all ended with killed workers: it is not lost, because
  /// an operator finds it among the dead letters.
  private func excuse(_ id: String) {
    guard excused.insert(id).inserted, let job = jobs[id] else { return }
    missing -= targets(of: job).count { outcomes[$0] == nil }
  }

  /// The text of a field, without escapes; as the simulation has it (`Twins`).
  static func text(_ name: String, in body: [UInt8]) -> String? {
    guard let start = end(of: "\"\(name)\":\"", in: body) else { return nil }
    return Twins.read(Array(body[start...].prefix { $0 != UInt8(ascii: "\"") }))
  }

  /// The number in a field.
  static func number(_ name: String, in body: [UInt8]) -> Int64? {
    let text = String(decoding: body, as: UTF8.self)
    guard let range = text.firstRange(of: "\"\(name)\":") else { return nil }
    return Int64(text[range.upperBound...].prefix { $0.isNumber })
  }

  static func says(_ text: String, in body: [UInt8]) -> Bool { end(of: text, in: body) != nil }

  /// The position after the first match.
  private static func end(of text: String, in body: [UInt8]) -> Int? {
    let wanted = Array(text.utf8)
    guard body.count >= wanted.count else { return nil }
    for start in 0...body.count - wanted.count where body[start] == wanted[0] {
      let end = start + wanted.count
      if body[start..<end] == wanted[...] { return end }
    }
    return nil
  }

  // MARK: - Finish

  /// Checks everything after the end.
  /// - Parameter elsewhere: `apns-id`s that another auditor covers.
  func finish(_ ledger: borrowing Ledger, elsewhere: Set<String>) {
    var known = elsewhere
    var targetsOfJobs: Set<Target> = []
    for id in order {
      for target in targets(of: jobs[id]!) {
        targetsOfJobs.insert(target)
        settle(target, ledger, &known)
      }
    }
    for target in outcomes.keys where !targetsOfJobs.contains(target) {
      violations.append("an outcome of an unknown target: \(target.job) \(target.token)")
    }
    // The only target of a job has the job's id.
    let hasExcusedBatch = excused.contains { id in jobs[id].map { $0.targets.count > 1 } == true }
    for (id, count) in ledger.acceptances {
      var text: [UInt8] = []
      id.write(to: &text)
      let name = String(decoding: text, as: UTF8.self)
      let isExcused = excused.contains(name) || hasExcusedBatch && jobs[name] == nil
      guard !known.contains(name), !isExcused else { continue }
      violations.append("accepted \(count) times, but without an outcome: \(name)")
    }
    judge(ledger.entries)
    judgeReregistered(ledger.entries)
    if keepsOrder { judgeOrder(ledger.entries) }
    violations += rates.violations
    if ledger.streamsOverLimit > 0 { violations.append("\(ledger.streamsOverLimit) streams over the limit") }
    let invalid = ledger.connections.reduce(0) { $0 + $1.invalidFrames }
    if invalid > 0 { violations.append("\(invalid) invalid HTTP/2 frames") }
    // The fleet shares one token, if nothing prevents it.
    if isRedisReliable, !faults.contains(.expireToken), tokensMade > providerTokens {
      violations.append("\(tokensMade) provider tokens within 20 minutes")
    }
    violations.sort()
  }

  private func settle(_ target: Target, _ ledger: borrowing Ledger, _ known: inout Set<String>) {
    let reported = outcomes[target] ?? []
    let ids = Set(reported.map(\.apnsID))
    known.formUnion(ids)
    let count = ids.reduce(0) { $0 + ledger.acceptances(of: $1) }
    let name = "\(target.job) \(target.token)"
    if reported.isEmpty {
      if !excused.contains(target.job) { violations.append("lost: \(name)") }
      return
    }
    if count > 1 { repeatedCount += 1 }
    if ids.count > 1 { violations.append("different apns-ids: \(name)") }
    let isMarked = reported.contains(where: \.isAmbiguous) || jobsWithLostData.contains(target.job)
    if count > 1, !isMarked { violations.append("accepted \(count) times, not marked as ambiguous: \(name)") }
    let names = Set(reported.map(\.name)).sorted()
    // A job may expire by a wrong clock and not expire by that of the next worker, which gets its copy; or by Redis', which jumps.
    let isOutOfTime = names.contains("expired") && !faults.isDisjoint(with: [.setClock, .jumpRedisClock])
    // A job that expired or was throttled is processed again if its producer publishes it again.
    let isProcessedAgain =
      jobs[target.job]!.againAfterNanoseconds != nil && (names.contains("expired") || reported[0].name == "throttled")
    // Where Redis keeps what it is told, nothing contradicts what was told first.
    let isOpen = keepsEnds ? reported[0].isAmbiguous : isMarked
    if names.count > 1, !isOpen, !isOutOfTime, !isProcessedAgain {
      violations.append("different outcomes, not marked as ambiguous: \(name): \(names)")
    }
    if count == 0, names.contains("accepted") {
      violations.append("reported as accepted, but APNs did not accept it: \(name)")
    }
    // A late copy of a job that was sent may expire where Redis answers too slowly to be asked: that is another fate, judged above.
    if names == ["expired"], !mayExpire(target) {
      violations.append("expired without a cause: \(name)")
    }
    if count > 0, jobs[target.job]!.ageSeconds > 0 { violations.append("sent although it was too old: \(name)") }
    if target.token.isEmpty != (names == ["invalid"]) {
      violations.append("the outcome does not fit the job: \(name): \(names)")
    }
  }

  private func mayExpire(_ target: Target) -> Bool {
    guard sendsAllInTime, let job = jobs[target.job], SimulatedJob.isDeliverable(target.token) else { return true }
    return isolated.contains(target.job) || job.hasExpiration || job.ageSeconds > 0 || job.lifetimeMilliseconds != nil
  }

  /// Checks the device that came back. Jobs with its new registration must be sent; the others until APNs reported it gone to one of them.
  private func judgeReregistered(_ entries: [LedgerEntry]) {
    let requested = Set(entries.lazy.filter { $0.target == SimulatedJob.reregistered }.map(\.apnsID))
    func wereSent(_ targets: [Target]) -> [Bool] {
      targets.compactMap { target in
        outcomes[target]?.first { $0.name == "unregistered" }.map { requested.contains($0.apnsID) }
      }
    }
    let reregistered = order.flatMap { targets(of: jobs[$0]!) }.filter { $0.token == SimulatedJob.reregistered }
    if wereSent(reregistered.filter { jobs[$0.job]!.isRegistered }).contains(false) {
      violations.append("treated as unregistered although it registered again: \(SimulatedJob.reregistered)")
    }
    let others = wereSent(reregistered.filter { !jobs[$0.job]!.isRegistered })
    if !others.isEmpty, !others.contains(true) {
      violations.append(
        "treated as unregistered because of a 410 that was older than the token: \(SimulatedJob.reregistered)")
    }
  }

  /// Of those with a collapse id, APNs accepts none for a device after a newer one.
  private func judgeOrder(_ entries: [LedgerEntry]) {
    var newest: [String: Int64] = [:]
    for entry in entries where entry.status == 200 {
      guard let rank = jobs[entry.apnsID]?.rank else { continue }
      orderedCount += 1
      let key = "\(rank.collapseID) of \(entry.target)"
      if let known = newest[key], known > rank.sequence {
        violations.append("an older one of \(key), \(known - rank.sequence) µs before the newest: \(entry.apnsID)")
      }
      newest[key] = max(newest[key] ?? 0, rank.sequence)
    }
  }

  /// Checks the requests that APNs saw.
  private func judge(_ entries: [LedgerEntry]) {
    let refusedAsDead = Set(entries.lazy.filter { $0.status == 410 }.map(\.target))
    for token in knownDead.keys.sorted() where !refusedAsDead.contains(token) {
      violations.append("reported as unregistered, but APNs never answered 410: \(token)")
    }
    guard isRedisReliable else { return }
    for entry in entries where entry.target != SimulatedJob.reregistered {
      guard let since = knownDead[entry.target], entry.receivedAt > since + WorkerAuditor.deadMilliseconds else {
        continue
      }
      violations.append("sent to an unregistered token after \(entry.receivedAt - since) ms: \(entry.target)")
    }
  }

  /// By then everything on its way to a slow APNs has arrived.
  private static let deadMilliseconds: Int64 = 10_000
}
