import APNsSimulator

/// Activities on broadcast channels: each has one, everybody on it is shown the newest state, and nobody has it in both ways.
extension AudienceAuditor {
  /// A device's start named this channel, and APNs accepted it.
  struct Subscription {
    let channel: String
    let startedAt: Int64
    let timestamp: Int64
  }

  /// By device and activity: its first start that names a channel.
  func subscribers(_ ledger: Ledger) -> [Member: Subscription] {
    let devices = Dictionary(phones.values.map { ($0.startToken, $0.name) }) { first, _ in first }
    var found: [Member: Subscription] = [:]
    for seen in ledger.lastNotifications {
      guard let device = devices[seen.entry.target],
        let channel = WorkerAuditor.text("input-push-channel", in: seen.payload),
        let number = WorkerAuditor.number("n", in: seen.payload),
        let timestamp = WorkerAuditor.number("timestamp", in: seen.payload)
      else { continue }
      let member = Member(device: device, activity: SimulatedAudienceJob.activity(ofState: Int(number)))
      if found[member] == nil {
        found[member] = Subscription(channel: channel, startedAt: seen.entry.receivedAt, timestamp: timestamp)
      }
    }
    return found
  }

  /// A broadcast is accepted once, or marked.
  func judgeBroadcasts(_ ledger: Ledger) {
    for id in order {
      guard let job = jobs[id], !isLossy(job) else { continue }
      for (apnsID, ends) in Dictionary(grouping: job.broadcasts, by: \.apnsID).sorted(by: { $0.key < $1.key }) {
        let count = ledger.acceptances(of: apnsID)
        if count > 1, !ends.contains(where: \.isAmbiguous) {
          fail("broadcast \(count) times, not marked as ambiguous: \(id) \(apnsID)")
        }
        if count == 0, ends.contains(where: { $0.name == "accepted" }) {
          fail("a broadcast is reported as accepted, but APNs did not accept it: \(id) \(apnsID)")
        }
      }
    }
  }

  func judgeChannels(_ pushes: [String: [Push]], _ subscribers: [Member: Subscription]) {
    for activity in Set(subscribers.keys.map(\.activity)).sorted() where !isDoubtful(activity) {
      let mine = subscribers.filter { $0.key.activity == activity }.sorted { $0.key.device < $1.key.device }
      let channels = Set(mine.map(\.value.channel)).sorted()
      guard channels.count == 1 else {
        fail("\(activity) has several channels: \(channels)")
        continue
      }
      let starts = jobs.values.filter { $0.job.activity == activity && $0.job.push == .start }
      if let channel = channels.first, reapedChannels.contains(channel) {
        fail("an operator's command deleted the channel of \(activity), which is known: \(channel)")
      }
      for (member, _) in mine { judgeBothWays(member, starts) }
      // Where the app started it itself, a start may be newer than an update.
      guard let newest = newest(activity), isReported(newest, activity), let number = revision(of: newest),
        starts.allSatisfy({ revision(of: $0).map { $0 < number } ?? true })
      else { continue }
      for (member, subscription) in mine where !wasForgotten(member.device, before: subscription.startedAt) {
        let shown = (pushes[subscription.channel] ?? []).filter {
          $0.receivedAt >= subscription.startedAt && $0.timestamp > subscription.timestamp
        }.max { $0.timestamp < $1.timestamp }
        subscriberCount += 1
        if shown?.number != Int64(newest.job.state) {
          let text = shown.map { "\($0.number)" } ?? "its start"
          fail(
            "\(member.device) on the channel of \(activity) shows \(text), but the newest state is \(newest.job.state)")
        }
      }
    }
  }

  /// A forget takes a device out of its activities. A copy of a page that comes later may start it, after the start's last broadcast.
  private func wasForgotten(_ device: String, before startedAt: Int64) -> Bool {
    phones[device].flatMap { forgets[$0.user] }.map { $0.sentAt <= startedAt } ?? false
  }

  /// The newest state should have reached everybody: no broadcast of it ended otherwise, and no start of its activity is lost.
  private func isReported(_ newest: Job, _ activity: String) -> Bool {
    let isLost = jobs.values.contains { $0.job.activity == activity && $0.mayBeLost }
    return !isLost && !newest.broadcasts.contains { $0.name != "accepted" && $0.name != "throttled" }
  }

  /// A device that has an update token, known before the first start was published, is sent no start: it would be shown the activity twice.
  private func judgeBothWays(_ member: Member, _ jobs: [Job]) {
    guard let first = jobs.map(\.publishedAt).min(), !isForgotten(member.device) else { return }
    let isKnown = members[member]?.contains { !$0.token.isEmpty && $0.storedAt.map { $0 < first } ?? false } ?? false
    if isKnown { fail("\(member.device) of \(member.activity) has an update token, and is started on the channel") }
  }
}
