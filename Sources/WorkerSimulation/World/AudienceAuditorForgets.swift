import APNsSimulator

/// Pushes without an outcome, and pushes to forgotten users.
extension AudienceAuditor {
  /// Finds pushes that APNs accepted without an outcome.
  func judgeUnreported(_ ledger: Ledger) {
    guard !faults.contains(.deleteQueue) else { return }
    var owners: [String: String] = [:]
    for phone in phones.values {
      owners[phone.startToken] = phone.name
      for record in registrations[phone.name] ?? [] { owners[record.token] = phone.name }
    }
    for (member, records) in members { for record in records { owners[record.token] = member.device } }
    for entry in ledger.entries where ledger.acceptances(of: entry.apnsID) > 0 && !apnsIDs.contains(entry.apnsID) {
      guard let owner = owners[entry.target], !isForgotten(owner), !isUnclear(entry) else { continue }
      fail("accepted, but without an outcome: \(entry.apnsID) \(owner)")
    }
  }

  /// `apns-id`s of everything that was sent to tokens of devices.
  func apnsIDs(_ ledger: Ledger) -> Set<String> {
    var tokens = Set(phones.values.map(\.startToken))
    for record in registrations.values.joined() { tokens.insert(record.token) }
    for record in members.values.joined() { tokens.insert(record.token) }
    return apnsIDs.union(ledger.entries.filter { tokens.contains($0.target) }.map(\.apnsID))
  }

  /// Redis lost data while what tells the end of a push may have been on its way.
  private func isUnclear(_ entry: LedgerEntry) -> Bool {
    losses.contains {
      $0.lowerBound - AudienceAuditor.reportMilliseconds <= entry.receivedAt && entry.receivedAt <= $0.upperBound
    }
  }

  /// A page whose worker died may wait in each retry queue.
  private static let reportMilliseconds: Int64 = 120_000

  // MARK: - Forgotten users

  private func wasStored(_ record: RegistrationRecord, before forget: RegistrationRecord) -> Bool {
    record.storedAt.map { $0 < forget.sentAt } ?? false
  }

  /// Time in which lanes still send to devices that they had looked up before. Pages in a queue are looked up again.
  private static let lookedUpMilliseconds: Int64 = 30_000

  func judgeForgotten(_ ledger: Ledger) {
    for (user, record) in forgets.sorted(by: { $0.key < $1.key }) {
      guard let storedAt = record.storedAt else { continue }
      let mine = phones.values.filter { phone in
        phone.user == user && registrations[phone.name]?.contains(where: \.mayBeLost) != true
      }
      // A user who registers again after that is a normal user.
      // Nobody knows yet whose a device is of which other fields came first.
      let gone = mine.filter { phone in
        registrations[phone.name]?.allSatisfy { $0.sentAt <= record.sentAt } ?? true
          && registrations[phone.name]?.contains { $0.part == nil || $0.part == .user && wasStored($0, before: record) }
            ?? true
      }
      var tokens = Set(gone.flatMap { phone in (registrations[phone.name] ?? []).map(\.token) + [phone.startToken] })
      // Of a device that an update token made known, or made known again, nobody knows the user.
      let owned = gone.filter { phone in registrations[phone.name]?.contains { wasStored($0, before: record) } ?? false
      }
      for (member, records) in members
      where forgetCounts[user] == 1 && owned.contains(where: { $0.name == member.device }) {
        guard !records.contains(where: \.mayBeLost) else { continue }
        let newer = Set(records.filter { $0.sentAt > record.sentAt }.map(\.token))
        tokens.formUnion(records.map(\.token).filter { !$0.isEmpty && !newer.contains($0) })
      }
      for entry in ledger.entries where !entry.target.isEmpty && tokens.contains(entry.target) {
        if entry.receivedAt > storedAt + AudienceAuditor.lookedUpMilliseconds + pausedMilliseconds {
          fail("sent to a forgotten user after \(entry.receivedAt - storedAt) ms: \(user) \(entry.target)")
        }
      }
    }
  }
}
