/// Whose a device was, and since when: a forget of a user is about the devices that were the user's then, in whichever order it and their
/// registrations are stored.
extension DeviceRecord {
  package struct Owner: Hashable, Sendable {
    /// Unix milliseconds; `Int64.min`: for longer than is remembered.
    package var since: Int64
    /// A hash of the user's id; 0: nobody.
    package var user: UInt64

    package init(since: Int64, user: String?) {
      self.init(since: since, hash: user.map(Owner.hash) ?? 0)
    }

    init(since: Int64, hash: UInt64) {
      self.since = since
      user = hash
    }

    static func hash(of user: String) -> UInt64 {
      var hash = SipHash128(key0: 0x6865_7261_6C64_2067, key1: 0x6F77_6E65_7220_2020)
      let bytes = Array(user.utf8)
      hash.append(padding: bytes.span)
      return max(1, hash.finish().first)
    }
  }

  /// All who are remembered, ascending; the last has it now.
  private var allOwners: [Owner] { owners.isEmpty ? times.user.map { [Owner(since: $0, user: user)] } ?? [] : owners }

  private mutating func setOwners(_ all: [Owner]) {
    var kept: [Owner] = []
    for owner in all where kept.last?.user != owner.user { kept.append(owner) }
    // Before who came first it was nobody's anyway.
    if let first = kept.first, first.user == 0, first.since == .min { kept.removeFirst() }
    if kept.count > DeviceLimits.ownersMaximum { kept.removeFirst(kept.count - DeviceLimits.ownersMaximum) }
    owners = kept == times.user.map { [Owner(since: $0, user: user)] } ?? [] ? [] : kept
  }

  /// Who had it at this time, as `RegistrationTime` counts; nil: nobody is known.
  package func owner(at time: Int64, now: Int64) -> Owner? {
    let time = RegistrationTime(at: time, now: now)
    return allOwners.last { !time.isOlder(than: $0.since) }
  }

  /// Since when who has it now has had it.
  package var ownedSince: Int64? { allOwners.last?.since }

  /// Until when the user had it that had it at this time; nil: it was another's, or is still the user's.
  package func ownedUntil(by user: String, at time: Int64) -> Int64? {
    let all = allOwners
    guard let index = all.lastIndex(where: { $0.since <= time }), all[index].user == Owner.hash(of: user) else {
      return nil
    }
    return index + 1 < all.count ? all[index + 1].since : nil
  }

  /// After the registration changed the user, or came too late to.
  mutating func changeOwners(_ change: FieldChange<String>, at: Int64, from before: DeviceRecord?) {
    let named: String?
    switch change {
    case .keep: return
    case .remove: named = nil
    case .set(let user): named = user
    }
    var all = before?.allOwners ?? []
    if times.user == at {
      all.removeAll { $0.since >= at }
      all.append(Owner(since: at, user: user))
    } else if let last = times.user {
      insert(Owner(since: at, user: named), named, last: last, &all)
    }
    setOwners(all)
  }

  /// Inserts who came late.
  /// - Parameter last: of the user's last registration.
  private func insert(_ owner: Owner, _ named: String?, last: Int64, _ all: inout [Owner]) {
    let index = all.lastIndex { $0.since <= owner.since }
    if let index, all[index].user == owner.user { return }
    let isCurrent = index.map { $0 == all.count - 1 } ?? false
    if let index, all[index].since == owner.since {
      // Of two with the same time, as everywhere; of an earlier user only the hash is left.
      let isWinner =
        if let named {
          all[index].user != 0
            && (isCurrent ? ByteText(user ?? "") < ByteText(named) : all[index].user < owner.user)
        } else {
          true
        }
      guard isWinner else { return }
      all[index] = owner
    } else {
      all.insert(owner, at: index.map { $0 + 1 } ?? 0)
    }
    if isCurrent { all.append(Owner(since: last, user: user)) }
  }

  /// After the forget changed the user.
  mutating func forgetOwners(_ time: RegistrationTime, of before: DeviceRecord) {
    guard let last = times.user else {
      owners = []
      return
    }
    var kept = before.allOwners.filter { !time.covers($0.since) }
    if kept.isEmpty { kept = [Owner(since: last, user: user)] }
    setOwners(kept)
  }

  /// The first has had it for ever if that was before the horizon, or if all that the record holds came later.
  mutating func forgetOldOwners(before horizon: Int64) {
    var all = allOwners
    guard let first = all.first, first.since < horizon || !owners.isEmpty else { return }
    while all.count > 1, all[1].since < horizon { all.removeFirst() }
    let isRenewed = !owners.isEmpty && all.count == 1 && fieldTimes(absences).allSatisfy { $0 == times.user }
    if isRenewed || all[0].since < horizon { all[0].since = .min }
    setOwners(all)
  }
}
