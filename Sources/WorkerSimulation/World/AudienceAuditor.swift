import APNsSimulator
import PushCore

/// Audits audiences from outside: what registrations contained, what jobs requested, and what outcomes and APNs reported. It
/// shares no code with the workers.
///
/// - No gap, no repeat: each device of an audience has one end for a job, as counted in the job's summary, and APNs accepted it once.
/// - Newest state to every member: the last push to a member's token in an activity, or on the channel that its start named, is the newest
///   revision; none has both. A device that an activity ended for alone is sent nothing newer.
/// - A device is started once, whichever jobs start it, and none is left out for a start that APNs did not accept.
/// - A forgotten user is sent nothing.
/// - Whoever is sent something was named by its audience, and an activity's channel shows that activity alone. No fault excuses this one.
/// - A job that an operator paused or cancelled is not sent, and a cancelled state is shown only where its outcome says so.
package final class AudienceAuditor {
  /// The outcome of a job on a device.
  struct End {
    let apnsID: String
    let name: String
    let isAmbiguous: Bool
    /// Of the push to a late token, which no summary counts.
    let isLate: Bool
  }

  /// A registration of a device, or of an activity on it.
  struct RegistrationRecord {
    let token: String
    let sentAt: Int64
    /// What it registers; nil: all that a device has, or something else than a device.
    var part: SimulatedPhone.Part?
    /// When Redis had stored it, Unix milliseconds; nil: no acknowledgement yet, or Redis may have lost it.
    var storedAt: Int64?
    /// It is a dead letter: its acknowledgement does not tell that Redis has it.
    var isDeadLetter = false
    /// Redis may have lost it.
    var mayBeLost = false
    /// By a clock that may have been wrong.
    var isOfWrongClock = false
  }

  struct Job {
    let job: SimulatedAudienceJob
    let publishedAt: Int64
    /// Outcomes of the whole job, in order.
    var outcomes: [String] = []
    var endedAt: Int64?
    /// When something of it came last: its message, or an outcome.
    var seenAt: Int64
    var orders: [Order] = []
    var ends: [String: [End]] = [:]
    /// Of its broadcasts.
    var broadcasts: [End] = []
    /// Redis lost data while the job was in progress.
    var mayBeLost = false
    var isRepeated = false
    /// Of its dead letters that no worker could prevent: the device that a late push was for; nil: several devices.
    var deadLetters: [String?] = []
  }

  struct Member: Hashable {
    let device: String
    let activity: String
  }

  let app: SimulatedApp
  let faults: Set<WorkerFault>
  private(set) var jobs: [String: Job] = [:]
  private(set) var order: [String] = []
  private(set) var phones: [String: SimulatedPhone] = [:]
  /// In order of publication.
  private(set) var registrations: [String: [RegistrationRecord]] = [:]
  private(set) var members: [Member: [RegistrationRecord]] = [:]
  /// By user: when it was requested, and when Redis had stored it.
  private(set) var forgets: [String: RegistrationRecord] = [:]
  private(set) var forgetCounts: [String: Int] = [:]
  /// When Redis lost data, and what had been stored just before may still be acknowledged.
  private(set) var losses: [ClosedRange<Int64>] = []
  /// When a worker's clock was wrong.
  private(set) var wrongClocks: [ClosedRange<Int64>] = []
  /// When something of each activity came first and last: a job, a token or an outcome.
  private(set) var lives: [String: ClosedRange<Int64>] = [:]
  /// Channels that an operator deleted as unused, in order.
  private(set) var reapedChannels: [String] = []
  /// Violations.
  private var wrong: [String] = []
  private(set) var apnsIDs: Set<String> = []
  /// Jobs that need no outcome; a dead letter may come before its producer knows that the job is stored.
  private var deadLetters: Set<String> = []

  init(_ app: SimulatedApp, faults: Set<WorkerFault>) {
    self.app = app
    self.faults = faults
  }

  package var publishedCount: Int { order.count }
  /// Devices with an end.
  package var endCount: Int { jobs.values.reduce(0) { $0 + $1.ends.count } }
  package private(set) var repeatedCount = 0
  /// Members whose last push was checked.
  package internal(set) var memberCount = 0
  /// Devices that were started after a start that APNs had not accepted.
  package internal(set) var restartedCount = 0
  /// Devices on an activity's channel whose last state was checked.
  package internal(set) var subscriberCount = 0

  /// Jobs that an operator cancelled or paused, and whose pushes were checked.
  package internal(set) var orderedCount = 0

  /// How much longer a push may be under way, because its worker hung, milliseconds.
  var pausedMilliseconds: Int64 { faults.contains(.pauseWorker) ? 30_000 : 0 }

  func fail(_ text: String) { wrong.append(text) }

  // MARK: - Events

  func published(_ event: SimulatedAudienceEvent, unixMilliseconds now: Int64) {
    switch event.kind {
    case .register(let phone, let part):
      phones[phone.name] = phone
      let token = part.map { $0 == .token } ?? true ? phone.token : ""
      registrations[phone.name, default: []].append(
        RegistrationRecord(token: token, sentAt: event.sentAt, part: part))
    case .forget(let user):
      forgets[user] = RegistrationRecord(token: "", sentAt: event.sentAt)
      forgetCounts[user, default: 0] += 1
    case .token(let device, let activity, let token):
      lives(activity, at: now)
      members[Member(device: device, activity: activity), default: []].append(
        RegistrationRecord(token: token, sentAt: event.sentAt))
    case .job(let job):
      if job.push != nil { lives(job.activity, at: now) }
      guard jobs[job.id] == nil else {
        jobs[job.id]?.isRepeated = true
        jobs[job.id]?.seenAt = now
        return
      }
      jobs[job.id] = Job(job: job, publishedAt: now, seenAt: now)
      order.append(job.id)
      if deadLetters.remove(job.id) != nil { excuse(job.id) }
    }
  }

  /// Redis lost data at one of these times, Unix milliseconds: of what was in progress or stored before, the remaining state is unknown.
  func redisLostData(from begin: Int64, until end: Int64) {
    losses.append(begin...end + AudienceAuditor.doubtMilliseconds + pausedMilliseconds)
    for (id, job) in jobs where job.endedAt == nil { jobs[id]?.mayBeLost = true }
    func lost(_ record: RegistrationRecord) -> RegistrationRecord {
      var record = record
      record.storedAt = nil
      record.mayBeLost = true
      return record
    }
    registrations = registrations.mapValues { $0.map(lost) }
    members = members.mapValues { $0.map(lost) }
    forgets = forgets.mapValues(lost)
  }

  /// A worker's clock was wrong between these times.
  func clockWasWrong(from begin: Int64, until end: Int64) {
    wrongClocks.append(begin...end + AudienceAuditor.doubtMilliseconds + pausedMilliseconds)
  }

  /// An operator's command was answered, and taken.
  func ordered(_ order: Order, _ job: String) { jobs[job]?.orders.append(order) }

  /// An operator deleted this channel as unused.
  func reaped(_ channel: String) { reapedChannels.append(channel) }

  private func lives(_ activity: String, at now: Int64) {
    let life = lives[activity] ?? now...now
    lives[activity] = life.lowerBound...max(life.upperBound, now)
  }

  /// Every job has its outcome, except those that Redis lost.
  var isComplete: Bool { jobs.values.allSatisfy { $0.endedAt != nil || $0.mayBeLost } }

  /// Takes the broker's events about audiences. false: the event is about something else.
  func observe(_ event: SimulatedRabbitMQEvent, unixMilliseconds now: Int64) -> Bool {
    switch event {
    case .acknowledged(let queue, let message) where queue.hasSuffix(".registrations"):
      guard isOfApp(message.body) else { return false }
      if let activity = WorkerAuditor.text("activity", in: message.body) { lives(activity, at: now) }
      let isLosing = losses.contains { $0.contains(now) }
      let isOfWrongClock = wrongClocks.contains { $0.contains(now) }
      mark(message.body) { record in
        if isLosing { record.mayBeLost = true }
        if record.storedAt == nil, !record.isDeadLetter, !isLosing { record.storedAt = now }
        if isOfWrongClock { record.isOfWrongClock = true }
      }
      return true
    case .stored(let queue, let message) where queue.hasSuffix(".dead"):
      return recordDeadLetter(message.body)
    case .stored(let queue, let message) where queue.hasSuffix(".results.log"):
      return recordOutcome(message.body, now)
    default:
      return false
    }
  }

  private func isOfApp(_ body: [UInt8]) -> Bool { WorkerAuditor.text("app", in: body) == app.id }

  /// Changes the record of the registration with this body.
  private func mark(_ body: [UInt8], _ change: (inout RegistrationRecord) -> Void) {
    guard let at = WorkerAuditor.number("at", in: body), isOfApp(body) else { return }
    if let user = WorkerAuditor.text("user", in: body), WorkerAuditor.says(#""kind":"forget""#, in: body) {
      if var record = forgets[user], record.sentAt == at {
        change(&record)
        forgets[user] = record
      }
      return
    }
    guard let device = WorkerAuditor.text("device", in: body) else { return }
    let token = WorkerAuditor.text("token", in: body) ?? ""
    func marked(_ registrations: [RegistrationRecord]?) -> [RegistrationRecord]? {
      registrations?.map { record in
        var record = record
        if record.sentAt == at, record.token == token { change(&record) }
        return record
      }
    }
    if let activity = WorkerAuditor.text("activity", in: body) {
      let member = Member(device: device, activity: activity)
      members[member] = marked(members[member])
    } else {
      registrations[device] = marked(registrations[device])
    }
  }

  /// A dead letter.
  private func recordDeadLetter(_ body: [UInt8]) -> Bool {
    if WorkerAuditor.says(#""kind":""#, in: body) {
      guard isOfApp(body) else { return false }
      // A registration that was in progress when several workers died, or when its connection ended several times, counts as poison.
      mark(body) { $0.isDeadLetter = true }
      if !faults.contains(where: { $0.family != .apns }) { fail("a valid registration was dead-lettered") }
      return true
    }
    // Of a page, of what a lane tells about one, or of the job.
    let id = ["parent_id", "settles", "id"].lazy.compactMap { WorkerAuditor.text($0, in: body) }.first ?? ""
    if faults.contains(.deleteQueue) {
      // Its queue was deleted: an operator finds it among the dead letters.
      if jobs[id] == nil { deadLetters.insert(id) } else { excuse(id) }
      // A report about a page tells what was sent.
      let isReport = WorkerAuditor.text("settles", in: body) != nil
      if !isReport { jobs[id]?.deadLetters.append(WorkerAuditor.text("late", in: body)) }
    }
    return jobs[id] != nil
  }

  private func excuse(_ id: String) {
    jobs[id]?.mayBeLost = true
    if jobs[id]?.endedAt == nil { jobs[id]?.endedAt = 0 }
  }

  private func recordOutcome(_ body: [UInt8], _ now: Int64) -> Bool {
    let parent = WorkerAuditor.text("parent_id", in: body)
    guard let id = parent ?? WorkerAuditor.text("job_id", in: body), jobs[id] != nil,
      let name = WorkerAuditor.text("outcome", in: body), let apnsID = WorkerAuditor.text("apns_id", in: body)
    else { return false }
    jobs[id]?.seenAt = now
    if let job = jobs[id]?.job, job.push != nil { lives(job.activity, at: now) }
    guard parent != nil else {
      jobs[id]?.outcomes.append(String(decoding: body, as: UTF8.self))
      if let age = jobs[id].map({ now - $0.publishedAt }) { judgeEarly(String(decoding: body, as: UTF8.self), id, age) }
      if jobs[id]?.endedAt == nil { jobs[id]?.endedAt = now }
      return true
    }
    apnsIDs.insert(apnsID)
    let isAmbiguous = WorkerAuditor.says(#""ambiguous":true"#, in: body)
    let isLate = WorkerAuditor.text("job_id", in: body)?.hasPrefix("\(id)/late/") ?? false
    let end = End(apnsID: apnsID, name: name, isAmbiguous: isAmbiguous, isLate: isLate)
    if let device = WorkerAuditor.text("device", in: body) {
      jobs[id]?.ends[device, default: []].append(end)
    } else if WorkerAuditor.text("channel", in: body) != nil {
      jobs[id]?.broadcasts.append(end)
    } else {
      fail("an outcome without a device or channel: \(id)")
    }
    return true
  }

  // MARK: - Finish

  /// Checks everything after the end. Returns the violations.
  func finish(_ ledger: Ledger) -> [String] {
    for id in order { if let job = jobs[id] { judge(job, ledger) } }
    judgeIdentity(ledger)
    judgeTokens(ledger)
    judgeMembers(ledger)
    judgeForgotten(ledger)
    judgeUnreported(ledger)
    judgeOrders(ledger)
    return wrong
  }

  private func judge(_ job: Job, _ ledger: Ledger) {
    let id = job.job.id
    guard !job.outcomes.isEmpty else {
      if !job.mayBeLost { fail("an audience without an outcome: \(id)") }
      return
    }
    for (device, ends) in job.ends.sorted(by: { $0.key < $1.key }) { judge(ends, of: device, job, ledger) }
    judgeTargets(job)
    guard !isLossy(job) else { return }
    // All copies of a job that came before its activity was known are refused.
    let inTime = job.outcomes.filter { !hasExpiredEarly($0, job) }
    let refused = inTime.count { $0.contains("is not known") }
    if refused > 0, refused < inTime.count { fail("refused, and not refused: \(id)") }
    let outcomes = inTime.filter { !isExcused($0, job) }
    let summaries = Set(outcomes.map { AudienceAuditor.summary($0) })
    if outcomes.isEmpty { return }
    guard summaries.count == 1, let text = summaries.first else {
      return fail("different outcomes of an audience: \(id): \(summaries.map { $0 ?? "refused" }.sorted())")
    }
    guard let text else {
      return fail("a valid job was refused: \(id): \(outcomes[0].prefix(300))")
    }
    judge(job, AudienceAuditor.counts(text))
  }

  private func judge(_ ends: [End], of device: String, _ job: Job, _ ledger: Ledger) {
    let name = "\(job.job.id) \(device)"
    let isMarked = ends.contains(where: \.isAmbiguous) || isLossy(job)
    // Each late token has its own push, in addition to the page's. A device that was forgotten and registers again is another device, and
    // may be found again.
    let pages = Set(ends.filter { !$0.isLate }.map(\.apnsID))
    if pages.count > 1, !isMarked, !isForgotten(device) { fail("in two pages: \(name)") }
    for (id, ends) in Dictionary(grouping: ends, by: \.apnsID).sorted(by: { $0.key < $1.key }) {
      let count = ledger.acceptances(of: id)
      if count > 1 { repeatedCount += 1 }
      if count == 0, ends.contains(where: { $0.name == "accepted" }) {
        fail("reported as accepted, but APNs did not accept it: \(name)")
      }
      if isMarked || isForgotten(device, during: job) { continue }
      if count > 1 { fail("accepted \(count) times, not marked as ambiguous: \(name)") }
      // One of two copies may expire by a clock that is wrong or was put right between them, the worker's or Redis'.
      let names = Set(ends.map(\.name)).sorted()
      let isOutOfTime = names.contains("expired") && (hasWrongClock(job) || faults.contains(.jumpRedisClock))
      if names.count > 1, !isOutOfTime {
        fail("different outcomes, not marked as ambiguous: \(name): \(names)")
      }
    }
  }

  /// No outcome names a device outside the audience, whatever Redis lost.
  private func judgeTargets(_ job: Job) {
    let others: [Job]
    switch job.job.push {
    case nil, .start: others = []
    // A late token of a device that left gets the newest such end, which may be another's.
    case .leave where !isLossy(job): others = leaves(of: job.job.activity)
    case .leave, .update, .end: return
    }
    for device in job.ends.keys.sorted() where phones[device].map({ !job.job.takes($0) }) ?? true {
      if !others.contains(where: { $0.job.names(device) }) {
        fail("sent to a device outside the audience: \(job.job.id) \(device)")
      }
    }
  }

  /// Checks a job's summary against the devices' outcomes and the possible devices.
  private func judge(_ job: Job, _ counts: [String: Int]) {
    let id = job.job.id
    let devices = counts["devices"] ?? 0
    let ended = counts.filter { $0.key != "devices" }.values.reduce(0, +)
    if devices != ended { fail("a summary that does not add up: \(id): \(counts.sorted { $0.key < $1.key })") }
    let skipped = counts["skipped"] ?? 0
    // A device that is asked for again has no token if APNs reported it as gone meanwhile, or its user was forgotten. The device
    // has the reported end, and the summary counts it as skipped. If a page is delivered again, a device that had no token may have one now;
    // its end is marked. Of an activity that is over on a device, a page that comes again tells in its end that it may have been sent.
    let mayBeBoth = job.ends.count { device, ends in
      ends.contains(where: \.isLate) || isForgotten(device) || ends.contains { $0.name == "unregistered" }
        || ends.contains(where: \.isAmbiguous) && (job.isCancelled || hasRegistered(device, during: job))
        || job.job.push != nil && ends.contains { $0.isAmbiguous && $0.name == "throttled" }
    }
    let both = job.ends.count + skipped + (counts["cancelled"] ?? 0) - devices
    // One that was forgotten and registers again counts as another device.
    let again = job.ends.reduce(0) { $0 + (isForgotten($1.key) ? Set($1.value.map(\.apnsID)).count - 1 : 0) }
    // Nor has one an outcome whose ordinal is another's, in a Redis that was rewound.
    if both + again + (counts["forgotten"] ?? 0) < 0 || both > mayBeBoth {
      fail("\(job.ends.count) devices have outcomes, but the summary has \(counts.sorted { $0.key < $1.key }): \(id)")
    }
    guard job.job.push != .update, job.job.push != .end else { return }
    let sure = phones.values.filter { job.job.takes($0) && isSurelyKnown($0, for: job) }
    let possible = phones.values.filter { job.job.takes($0) }
    if devices < sure.count, !job.isCancelled {
      fail("\(devices) devices for an audience of at least \(sure.count): \(id)")
    }
    // A device that was forgotten and registers again is another device.
    let most = possible.count + possible.count { isForgotten($0.name) }
    if devices > most { fail("\(devices) devices for an audience of at most \(most): \(id)") }
    guard !job.isCancelled else { return }
    let missing = sure.filter { job.ends[$0.name] == nil }.map(\.name).sorted()
    switch job.job.push {
    case nil:
      // Devices without a token are skipped.
      let silent = missing.filter { name in
        registrations[name]?.allSatisfy { $0.token.isEmpty || SimulatedJob.isDeliverable($0.token) } ?? true
      }
      if !silent.isEmpty { fail("devices without an outcome: \(id): \(silent.prefix(5))") }
    case .start: judge(unstarted: missing, job)
    case .update, .end, .leave: break
    }
  }

  /// Redis had stored the device before the job was published, and its user was never forgotten.
  func isSurelyKnown(_ phone: SimulatedPhone, for job: Job) -> Bool {
    guard forgets[phone.user] == nil, let records = registrations[phone.name] else { return false }
    func isStored(_ part: SimulatedPhone.Part) -> Bool {
      records.contains { ($0.part ?? part) == part && $0.storedAt.map { $0 < job.publishedAt } ?? false }
    }
    return SimulatedPhone.Part.allCases.allSatisfy(isStored)
  }

  /// Redis had not stored one of its registrations, or of its update tokens, before the job was published.
  private func hasRegistered(_ device: String, during job: Job) -> Bool {
    let records = (registrations[device] ?? []) + (members[Member(device: device, activity: job.job.activity)] ?? [])
    return records.contains { $0.storedAt.map { $0 >= job.publishedAt } ?? true }
  }

  /// It was forgotten while the job was in progress: what was sent to it just before may have no end, and if it registers again it is another
  /// device.
  private func isForgotten(_ device: String, during job: Job) -> Bool {
    guard let user = phones[device]?.user, let forget = forgets[user] else { return false }
    if forgetCounts[user, default: 0] > 1 { return true }
    return (forget.storedAt ?? .max) >= job.publishedAt && forget.sentAt <= job.endedAt ?? .max
  }

  func isForgotten(_ device: String) -> Bool { phones[device].map { forgets[$0.user] != nil } ?? false }

  static func summary(_ outcome: String) -> String? {
    guard let start = outcome.firstRange(of: "\"summary\":{") else { return nil }
    return String(outcome[start.upperBound...].prefix { $0 != "}" })
  }

  private static func counts(_ summary: String) -> [String: Int] {
    var counts: [String: Int] = [:]
    for part in summary.split(separator: ",") {
      let parts = part.split(separator: ":")
      if parts.count == 2, let count = Int(parts[1]) { counts[parts[0].filter { $0 != "\"" }] = count }
    }
    return counts
  }
}
