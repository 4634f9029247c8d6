import APNsSimulator

/// Identity: nobody is sent what is for others, whatever fails, is lost, or comes back.
extension AudienceAuditor {
  /// Compares each push that APNs accepted with the audience of its job. It needs no outcome, and knows no excuse.
  func judgeIdentity(_ ledger: Ledger) {
    var alerts: [Int: SimulatedAudienceJob] = [:]
    var starts: [String: [SimulatedAudienceJob]] = [:]
    var updates: [Int: SimulatedAudienceJob] = [:]
    for job in jobs.values.map(\.job) {
      switch job.push {
      case nil: alerts[job.number] = job
      case .start: starts[job.activity, default: []].append(job)
      case .update, .end, .leave: updates[job.number] = job
      }
    }
    var devices: [String: SimulatedPhone] = [:]
    for phone in phones.values {
      devices[phone.startToken] = phone
      for record in registrations[phone.name] ?? [] { devices[record.token] = phone }
    }
    var owners: [String: Member] = [:]
    for (member, records) in members { for record in records { owners[record.token] = member } }
    let channels = channelOwners(ledger)
    for seen in ledger.lastNotifications {
      let target = seen.entry.target
      if let activities = channels[target], let number = WorkerAuditor.number("n", in: seen.payload) {
        for activity in activities.sorted() where updates[Int(number)]?.activity != activity {
          fail(
            "shown on the channel of an activity that its job is not of: \(number) on that of \(activity), \(target)")
        }
      } else if let phone = devices[target] {
        if let number = AudienceAuditor.alertNumber(in: seen.payload) {
          if !app.owns(number) { stranger(phone.name, "\(number) of another app") }
          if let job = alerts[number], !job.takes(phone) { stranger(phone.name, job.id) }
        } else if let state = WorkerAuditor.number("n", in: seen.payload) {
          if !app.owns(Int(state)) { stranger(phone.name, "\(state) of another app") }
          let activity = SimulatedAudienceJob.activity(ofState: Int(state))
          guard let jobs = starts[activity], !jobs.contains(where: { $0.takes(phone) }) else { continue }
          stranger(phone.name, jobs[0].id)
        }
      } else if let owner = owners[target], let number = WorkerAuditor.number("n", in: seen.payload) {
        if !app.owns(Int(number)) { stranger(owner.device, "\(number) of another app") }
        guard let job = updates[Int(number)] else { continue }
        // A late token of a device that left gets the newest such end, which may be another's.
        let leaves = updates.values.filter { $0.push == .leave && $0.activity == job.activity }
        let isNamed = job.push != .leave || leaves.contains { $0.names(owner.device) }
        if owner.activity != job.activity || !isNamed { stranger(owner.device, job.id) }
      }
    }
  }

  /// The activities whose starts named each channel: their devices show what is broadcast on it.
  private func channelOwners(_ ledger: Ledger) -> [String: Set<String>] {
    let devices = Set(phones.values.map(\.startToken))
    var owners: [String: Set<String>] = [:]
    for seen in ledger.lastNotifications where devices.contains(seen.entry.target) {
      guard let channel = WorkerAuditor.text("input-push-channel", in: seen.payload),
        let number = WorkerAuditor.number("n", in: seen.payload)
      else { continue }
      owners[channel, default: []].insert(SimulatedAudienceJob.activity(ofState: Int(number)))
    }
    for (channel, activities) in owners.sorted(by: { $0.key < $1.key }) where activities.count > 1 {
      fail("a channel of several activities: \(channel): \(activities.sorted())")
    }
    return owners
  }

  /// What all devices had registered before a job goes to their newest tokens.
  func judgeTokens(_ ledger: Ledger) {
    guard !faults.contains(.jumpRedisClock) else { return }
    var targets: [String: Set<String>] = [:]
    for entry in ledger.entries { targets[entry.apnsID, default: []].insert(entry.target) }
    for id in order {
      guard let job = jobs[id], job.job.push == nil, !isLossy(job), !hasWrongClock(job) else { continue }
      for (device, ends) in job.ends.sorted(by: { $0.key < $1.key }) where !isForgotten(device) {
        let records = registrations[device] ?? []
        guard records.allSatisfy({ !$0.isOfWrongClock && $0.storedAt.map { $0 < job.publishedAt } ?? false }),
          let newest = records.filter({ !$0.token.isEmpty }).map(\.sentAt).max()
        else { continue }
        let tokens = Set(records.filter { $0.sentAt == newest }.map(\.token))
        for other in Set(ends.map(\.apnsID)).sorted() where !(targets[other] ?? []).isSubset(of: tokens) {
          fail("sent to a token that was not the newest: \(id) \(device)")
        }
      }
    }
  }

  private func stranger(_ device: String, _ job: String) {
    fail("accepted for a device that its audience did not name: \(job) \(device)")
  }

  /// The number in the text of an alert for an audience.
  private static func alertNumber(in payload: [UInt8]) -> Int? {
    let text = String(decoding: payload, as: UTF8.self)
    guard let start = text.firstRange(of: "hello all ") else { return nil }
    return Int(text[start.upperBound...].prefix { $0.isNumber })
  }
}
