import APNsSimulator

/// Activities: the newest state to every member, and none out of order.
extension AudienceAuditor {
  struct Push {
    /// In the job's content state.
    let number: Int64
    let timestamp: Int64
    let receivedAt: Int64
  }

  /// A push sent before a newer one may arrive after it, within this time.
  static let underWayMilliseconds: Int64 = 20_000

  func judgeMembers(_ ledger: Ledger) {
    var pushes: [String: [Push]] = [:]
    for seen in ledger.lastNotifications {
      guard let number = WorkerAuditor.number("n", in: seen.payload),
        let timestamp = WorkerAuditor.number("timestamp", in: seen.payload)
      else { continue }
      pushes[seen.entry.target, default: []].append(
        Push(number: number, timestamp: timestamp, receivedAt: seen.entry.receivedAt))
    }
    let subscribers = subscribers(ledger)
    judgeStarts(ledger)
    judgeBroadcasts(ledger)
    for activity in lives.keys.sorted() where !isLossy(activity) {
      var targets = Set(subscribers.filter { $0.key.activity == activity }.map(\.value.channel))
      for (member, records) in members where member.activity == activity { targets.formUnion(records.map(\.token)) }
      judgeNumbers(activity, targets.map { pushes[$0] ?? [] })
      judgeUndone(activity, targets.sorted(), pushes)
      guard !isDoubtful(activity) else { continue }
      for target in targets.sorted() { judgeOrder(target, pushes[target] ?? []) }
      judgeNewest(activity, pushes, subscribers)
    }
    judgeChannels(pushes, subscribers)
  }

  /// Of two updates or ends, the one with the larger number of the producer's has the later timestamp, which decides what is shown. What was
  /// before a cancelled one gets a new timestamp.
  private func judgeNumbers(_ activity: String, _ pushes: [[Push]]) {
    var known: [Int64: (job: SimulatedAudienceJob, timestamps: ClosedRange<Int64>)] = [:]
    for job in jobs.values where job.job.activity == activity && job.job.sequence != nil && !job.isUndone {
      guard job.job.push == .update || job.job.push == .end else { continue }
      let timestamps = pushes.joined().filter { $0.number == Int64(job.job.number) }.map(\.timestamp)
      guard let first = timestamps.min(), let last = timestamps.max() else { continue }
      known[job.job.sequence ?? 0] = (job.job, first...last)
    }
    let ordered = known.sorted { $0.key < $1.key }.map(\.value)
    for (older, newer) in zip(ordered, ordered.dropFirst())
    where older.timestamps.upperBound >= newer.timestamps.lowerBound {
      fail(
        "\(newer.job.id) is newer than \(older.job.id), and its timestamp is not: \(newer.timestamps), \(older.timestamps)"
      )
    }
  }

  /// No device gets a state for the first time after a newer one.
  private func judgeOrder(_ token: String, _ pushes: [Push]) {
    var newest: Push?
    var seen: Set<Int64> = []
    for push in pushes {
      if seen.insert(push.timestamp).inserted, let newest, push.timestamp < newest.timestamp,
        push.receivedAt > newest.receivedAt + AudienceAuditor.underWayMilliseconds + pausedMilliseconds
      {
        fail("an older state \(push.receivedAt - newest.receivedAt) ms after a newer one: \(token): \(push.number)")
      }
      if newest.map({ $0.timestamp < push.timestamp }) ?? true { newest = push }
    }
  }

  /// A newer job of its activity came before its outcome: one with a larger number. Messages without one tell the second of their publication:
  /// an end, for all or for some, gives way only to an end of a later second; an update also to one of its own second, which came while it waited
  /// for its timestamp. An end ends the activity whichever is newer, and an update that waits gives way to it.
  func isOvertaken(_ job: Job) -> Bool {
    let second = job.publishedAt / 1_000
    func isNewer(_ other: Job, _ earliest: Int64?) -> Bool {
      guard let earliest else { return true }
      if let sequence = job.job.sequence, let newer = other.job.sequence { return newer > sequence }
      return other.publishedAt / 1_000 >= earliest
    }
    func isThere(_ pushes: [SimulatedAudienceJob.ActivityPush?], from earliest: Int64?) -> Bool {
      jobs.values.contains { other in
        other.job.activity == job.job.activity && other.job.id != job.job.id && pushes.contains(other.job.push)
          && isNewer(other, earliest)
          // With a wrong clock, a copy may have expired before.
          && (hasWrongClock(job) || other.publishedAt <= job.endedAt ?? .max)
      }
    }
    switch job.job.push {
    case nil, .start: return false
    case .update: return isThere([.update], from: second) || isThere([.end], from: nil)
    case .end, .leave: return isThere([.end], from: second + 1)
    }
  }

  /// The end with an activity's largest sequence, else the update. Where they have none: the one with its highest revision, among updates
  /// and ends that were not overtaken or refused. nil also where no outcome tells the revision of a job that may be lost.
  func newest(_ activity: String) -> Job? {
    let numbered = jobs.values.filter {
      $0.job.activity == activity && $0.job.sequence != nil && ($0.job.push == .update || $0.job.push == .end)
        && !$0.isUndone
    }
    if !numbered.isEmpty { return newest(of: numbered) }
    // What was before a cancelled one has a higher revision than its outcome says.
    if jobs.values.contains(where: { $0.job.activity == activity && $0.isCancelled }) { return nil }
    var newest: (revision: Int64, job: Job)?
    for id in order {
      guard let job = jobs[id], job.job.activity == activity, job.job.push == .update || job.job.push == .end,
        !job.isUndone
      else { continue }
      guard let revision = revision(of: job) else {
        if job.mayBeLost { return nil }
        continue
      }
      if isSupersededByUndone(job) { continue }
      if newest.map({ $0.revision < revision }) ?? true { newest = (revision, job) }
    }
    return newest?.job
  }

  /// The producer's order decides, whatever the order of arrival was. A job whose activity was not known is none of its states.
  private func newest(of jobs: [Job]) -> Job? {
    func place(_ job: Job) -> (Int, Int64) { (job.job.push == .end ? 1 : 0, job.job.sequence ?? 0) }
    for job in jobs.sorted(by: { place($0) > place($1) }) {
      if job.mayBeLost { return nil }
      if isSupersededByUndone(job) { continue }
      if job.outcomes.isEmpty || !job.outcomes.allSatisfy({ $0.contains("is not known") }) { return job }
    }
    return nil
  }

  /// Nothing of it was sent, because of a newer one that was cancelled later.
  private func isSupersededByUndone(_ job: Job) -> Bool {
    guard !job.outcomes.isEmpty, job.outcomes.allSatisfy({ $0.contains("\"outcome\":\"throttled\"") }),
      !job.ends.values.joined().contains(where: { $0.name == "accepted" })
    else { return false }
    return jobs.values.contains { $0.isUndone && $0.job.activity == job.job.activity && isOlder(job, than: $0) }
  }

  /// By the producer's numbers, else by revision.
  func isOlder(_ job: Job, than other: Job) -> Bool {
    if let sequence = job.job.sequence, let newer = other.job.sequence { return sequence < newer }
    return (revision(of: job) ?? 0) < (revision(of: other) ?? 0)
  }

  /// nil: no outcome names it.
  func revision(of job: Job) -> Int64? {
    job.outcomes.compactMap { WorkerAuditor.number("revision", in: Array($0.utf8)) }.max()
  }

  private func judgeNewest(_ activity: String, _ pushes: [String: [Push]], _ subscribers: [Member: Subscription]) {
    guard let newest = newest(activity) else { return }
    // It may have given way to a newer one as a whole, and have come back when that was cancelled.
    if newest.ends.isEmpty, !newest.outcomes.contains(where: { $0.contains("\"outcome\":\"completed\"") }) {
      // By Redis' clock, which may have jumped.
      if newest.outcomes.allSatisfy({ hasExpiredEarly($0, newest) }), !newest.outcomes.isEmpty { return }
      return fail("the newest state was never sent: \(activity): \(newest.job.id)")
    }
    for (member, registrations) in members.sorted(by: { $0.key.device < $1.key.device })
    where member.activity == activity && subscribers[member] == nil {
      guard let last = registrations.max(by: { $0.sentAt < $1.sentAt }), !last.token.isEmpty, last.storedAt != nil,
        SimulatedJob.isDeliverable(last.token), phones[member.device].map({ forgets[$0.user] == nil }) ?? false
      else { continue }
      // An end for this device alone may be a dead letter, or cancelled when some of it was sent: the device has left all the same.
      if hasLostLeave(member) { continue }
      let leaves = leaves(of: activity).filter { $0.job.names(member.device) }
      guard leaves.isEmpty else {
        judgeLeft(member, leaves, pushes[last.token] ?? [])
        continue
      }
      // Its push is a dead letter.
      if newest.deadLetters.contains(where: { $0 == nil || $0 == member.device }) { continue }
      memberCount += 1
      // A push that APNs refused, or that came too late, has an outcome that says so.
      let ends = newest.ends[member.device] ?? []
      if ends.contains(where: { $0.name != "accepted" && $0.name != "throttled" }) { continue }
      // It was cancelled before this push of it, or while nobody knew whether it had come.
      if newest.isKept, ends.allSatisfy({ $0.name == "throttled" && $0.isAmbiguous }) { continue }
      let shown = pushes[last.token]?.max { $0.timestamp < $1.timestamp }
      if shown?.number != Int64(newest.job.number) {
        let text = shown.map { "\($0.number)" } ?? "nothing"
        fail("\(member.device) of \(activity) shows \(text), but the newest state is \(newest.job.number)")
      }
    }
  }

  /// A device is not started by two jobs: APNs accepted at most one start of an activity for it.
  private func judgeStarts(_ ledger: Ledger) {
    let devices = Dictionary(phones.values.map { ($0.startToken, $0.name) }) { first, _ in first }
    var starts: [Member: Set<String>] = [:]
    for seen in ledger.lastNotifications {
      guard let device = devices[seen.entry.target], let number = WorkerAuditor.number("n", in: seen.payload) else {
        continue
      }
      let activity = SimulatedAudienceJob.activity(ofState: Int(number))
      starts[Member(device: device, activity: activity), default: []].insert(seen.entry.apnsID)
    }
    for (member, ids) in starts.sorted(by: { ($0.key.device, $0.key.activity) < ($1.key.device, $1.key.activity) })
    where ids.count > 1 && !isForgotten(member.device) && !isLossy(member.activity) {
      fail("\(member.device) of \(member.activity) is started by \(ids.count) jobs: \(ids.sorted())")
    }
  }

  /// Devices that were known before a start: each is sent it, or was in the activity before.
  func judge(unstarted missing: [String], _ job: Job) {
    let activity = job.job.activity
    let mine = jobs.values.filter { $0.job.activity == activity }
    let isOver = mine.contains { $0.job.push == .end && $0.publishedAt <= job.endedAt ?? .max }
    guard !isOver, !isDoubtful(activity), !mine.contains(where: \.mayBeLost) else { return }
    restartedCount += job.ends.keys.count { name in
      mine.contains { $0.job.push == .start && $0.ends[name] != nil && !mayHaveStarted(name, $0, before: job) }
    }
    let silent = missing.filter { name in
      members[Member(device: name, activity: activity)] == nil && !leaves(of: activity).contains { $0.job.names(name) }
        && !mine.contains { $0.job.push == .start && mayHaveStarted(name, $0, before: job) }
        && !mine.contains { hadWhenCancelled(name, $0, during: job) }
    }
    if !silent.isEmpty { fail("devices that are not started: \(job.job.id): \(silent.prefix(5))") }
  }

  /// The other start was accepted on the device, or may have been, or was not over when this one came.
  private func mayHaveStarted(_ device: String, _ other: Job, before job: Job) -> Bool {
    guard let ends = other.ends[device] else { return false }
    return ends.contains { $0.name == "accepted" || $0.isAmbiguous } || (other.endedAt ?? .max) >= job.publishedAt
  }

  /// The other start was cancelled, and may have had the device while this one looked.
  private func hadWhenCancelled(_ device: String, _ other: Job, during job: Job) -> Bool {
    guard other.job.push == .start, other.isCancelled, let phone = phones[device], other.job.takes(phone) else {
      return false
    }
    return other.publishedAt <= job.endedAt ?? .max && (other.endedAt ?? .max) >= job.publishedAt
  }

  // MARK: - Devices that left

  /// The jobs that ended an activity for some devices.
  func leaves(of activity: String) -> [Job] {
    jobs.values.filter { job in
      job.job.activity == activity && job.job.push == .leave && !job.isUndone
        && job.outcomes.contains { $0.contains("\"outcome\":\"completed\"") }
    }
  }

  private func hasLostLeave(_ member: Member) -> Bool {
    jobs.values.contains { job in
      job.job.activity == member.activity && job.job.push == .leave && job.job.names(member.device)
        && (job.mayBeLost || job.isKept)
    }
  }

  /// A device that its activity ended for alone shows that end, or the newest one that ended it for others, and is sent nothing newer.
  private func judgeLeft(_ member: Member, _ leaves: [Job], _ pushes: [Push]) {
    // If the device was not known yet, the job did not concern it.
    guard let phone = phones[member.device], leaves.contains(where: { isSurelyKnown(phone, for: $0) }) else { return }
    memberCount += 1
    // A late token gets the newest such end, which may be another's.
    let ends = self.leaves(of: member.activity).flatMap { $0.ends[member.device] ?? [] }
    if ends.contains(where: { $0.name != "accepted" && $0.name != "throttled" }) { return }
    let numbers = self.leaves(of: member.activity).map { Int64($0.job.number) }
    let shown = pushes.max { $0.timestamp < $1.timestamp }
    if !numbers.contains(shown?.number ?? 0) {
      let text = shown.map { "\($0.number)" } ?? "nothing"
      fail("\(member.device) left \(member.activity), and shows \(text), not one of its ends \(numbers.sorted())")
    }
  }
}
