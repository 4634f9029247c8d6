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
  private static let underWayMilliseconds: Int64 = 20_000

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
    if !hasLostData, !hasWrongClocks {
      let channels = subscribers.values.map(\.channel)
      for target in Set(members.values.joined().map(\.token) + channels).sorted() {
        judgeOrder(target, pushes[target] ?? [])
      }
    }
    judgeStarts(ledger)
    judgeBroadcasts(ledger)
    guard !hasLostData, !hasWrongClocks else { return }
    for activity in Set(members.keys.map(\.activity)).sorted() { judgeNewest(activity, pushes, subscribers) }
    judgeChannels(pushes, subscribers)
  }

  /// No device gets a state for the first time after a newer one.
  private func judgeOrder(_ token: String, _ pushes: [Push]) {
    var newest: Push?
    var seen: Set<Int64> = []
    for push in pushes {
      if seen.insert(push.timestamp).inserted, let newest, push.timestamp < newest.timestamp,
        push.receivedAt > newest.receivedAt + AudienceAuditor.underWayMilliseconds
      {
        fail("an older state \(push.receivedAt - newest.receivedAt) ms after a newer one: \(token): \(push.number)")
      }
      if newest.map({ $0.timestamp < push.timestamp }) ?? true { newest = push }
    }
  }

  /// The job with an activity's highest revision, among updates and ends that were not overtaken or refused.
  func newest(_ activity: String) -> Job? {
    var newest: (revision: Int64, job: Job)?
    for id in order {
      guard let job = jobs[id], job.job.activity == activity, job.job.push != .start, let revision = revision(of: job)
      else { continue }
      if newest.map({ $0.revision < revision }) ?? true { newest = (revision, job) }
    }
    return newest?.job
  }

  /// nil: no outcome names it.
  func revision(of job: Job) -> Int64? {
    job.outcomes.compactMap { WorkerAuditor.number("revision", in: Array($0.utf8)) }.max()
  }

  private func judgeNewest(_ activity: String, _ pushes: [String: [Push]], _ subscribers: [Member: Subscription]) {
    guard let newest = newest(activity) else { return }
    if !newest.outcomes.contains(where: { $0.contains("\"outcome\":\"completed\"") }) {
      return fail("the newest state was never sent: \(activity): \(newest.job.id)")
    }
    for (member, registrations) in members.sorted(by: { $0.key.device < $1.key.device })
    where member.activity == activity && subscribers[member] == nil {
      guard let last = registrations.max(by: { $0.sentAt < $1.sentAt }), !last.token.isEmpty, last.storedAt != nil,
        SimulatedJob.isDeliverable(last.token), phones[member.device].map({ forgets[$0.user] == nil }) ?? false
      else { continue }
      memberCount += 1
      // A push that APNs refused, or that came too late, has an outcome that says so.
      let ends = newest.ends[member.device] ?? []
      if ends.contains(where: { $0.name != "accepted" && $0.name != "throttled" }) { continue }
      let shown = pushes[last.token]?.max { $0.timestamp < $1.timestamp }
      if shown?.number != Int64(newest.job.number) {
        let text = shown.map { "\($0.number)" } ?? "nothing"
        fail("\(member.device) of \(activity) shows \(text), but the newest state is \(newest.job.number)")
      }
    }
  }

  /// A start is sent to a device once.
  private func judgeStarts(_ ledger: Ledger) {
    for id in order {
      guard let job = jobs[id], job.job.push == .start, !job.mayBeLost, !hasLostData else { continue }
      for (device, ends) in job.ends.sorted(by: { $0.key < $1.key })
      where !ends.contains(where: \.isAmbiguous) && !isForgotten(device) {
        let count = Set(ends.map(\.apnsID)).reduce(0) { $0 + ledger.acceptances(of: $1) }
        if count > 1 { fail("started \(count) times, not marked as ambiguous: \(id) \(device)") }
      }
    }
  }
}
