/// How a registration, a 410 and a forget change a device. Pure: the caller stores the result only if the record is
/// unchanged.
///
/// Each field has its own time (`RegistrationTime`), so registrations of some of a device's fields give the same record
/// in any order.
package enum DeviceChange {
  package enum Outcome: Hashable, Sendable {
    /// The registration cannot be applied to this device.
    case refused(JobError)
    /// - losers: devices that had one of the tokens before, without it.
    case changed(DeviceRecord, losers: [DeviceRecord])
  }

  /// - Parameters:
  ///   - at: the registration's time, Unix milliseconds.
  ///   - now: Unix milliseconds.
  ///   - record: its device; nil: a new one.
  ///   - holders: other devices with one of the registration's tokens.
  ///   - outdated: tokens of the registration that another device has registered no earlier, and given up since.
  ///   - fingerprint: random; of the record, if it is a new one, or another person's from now on: pages that were made for the one before
  ///     must not reach this one.
  package static func registering(
    _ registration: DeviceRegistration, at: Int64, now: Int64, onto record: DeviceRecord?,
    holders: [DeviceRecord] = [], outdated: Set<DeviceSet> = [], fingerprint: UInt32
  ) -> Outcome {
    let time = RegistrationTime(at: at, now: now)
    var next = record ?? DeviceRecord(id: registration.device, at: at)
    if record == nil { next.fingerprint = fingerprint }
    if !time.isOlder(than: next.at) { next.at = at }
    time.change(&next.user, &next.times.user, registration.user) { ByteText($0) < ByteText($1) }
    next.changeOwners(registration.user, at: at, from: record)
    if let before = record?.user, next.user.map({ !$0.hasBytes(of: before) }) ?? true { next.fingerprint = fingerprint }
    time.change(&next.locale, &next.times.locale, registration.locale) { ByteText($0) < ByteText($1) }
    time.change(&next.osVersion, &next.times.osVersion, registration.osVersion, isLess: <)
    time.change(&next.timeZone, &next.times.timeZone, registration.timeZone) { ByteText($0) < ByteText($1) }
    // A device that registered one of the tokens earlier does not have it any more, even if this one has given it up since.
    let others = holders.isEmpty ? [] : yielding(registration.tokens, holders, to: next.id, at: at, now: now)
    changeToken(&next, registration.token, time, others, outdated)
    changeStartTokens(&next, registration, time, others, outdated)
    if let error = next.changeTags(registration, time) { return .refused(error) }
    next.forgetOldChanges()
    return .changed(next, losers: zip(others, holders).filter { $0 != $1 }.map(\.0))
  }

  /// A token got a 410. nil: the device does not have it, or registered it later.
  /// - Parameter at: when the token became unregistered, by APNs' clock.
  package static func losing(_ token: [UInt8], at: Int64, now: Int64, from record: DeviceRecord) -> DeviceRecord? {
    let time = RegistrationTime(at: at, now: now)
    func isLost(_ own: DeviceRecord.Token) -> Bool { own.bytes == token && !time.isOlder(than: own.at) }
    var next = record
    if let own = next.token, isLost(own) { next.loseToken(own) }
    for start in next.startTokens where isLost(start.token) { next.loseStartToken(start) }
    guard next != record else { return nil }
    let gone = DeviceRecord.GoneToken(token, at: at)
    next.goneTokens.removeAll { $0.fingerprint == gone.fingerprint }
    next.goneTokens.append(gone)
    next.goneTokens.removeFirst(max(0, next.goneTokens.count - DeviceLimits.goneTokensMaximum))
    return next
  }

  /// What a forget at this time leaves of a device: each field that was registered later, as if nothing else had come. Earlier registrations
  /// do not come back: the forget's mark refuses them. nil: the device was not seen later.
  /// - Parameter fingerprint: random; the record's, if its user is forgotten.
  package static func forgetting(
    _ record: DeviceRecord, at: Int64, now: Int64, fingerprint: UInt32
  ) -> DeviceRecord? {
    let time = RegistrationTime(at: at, now: now)
    guard time.isOlder(than: record.at) else { return nil }
    var next = record
    time.forget(&next.user, &next.times.user)
    next.forgetOwners(time, of: record)
    time.forget(&next.locale, &next.times.locale)
    time.forget(&next.osVersion, &next.times.osVersion)
    time.forget(&next.timeZone, &next.times.timeZone)
    if let token = next.token, time.covers(token.at) { next.token = nil }
    next.startTokens.removeAll { time.covers($0.token.at) }
    next.goneTokens.removeAll { time.covers($0.at) }
    for known in [\DeviceRecord.Times.tokenRemoval, \.startTokensRemoval, \.tagsRemoval, \.increments] {
      if let removal = next.times[keyPath: known], time.covers(removal) { next.times[keyPath: known] = nil }
    }
    next.removedStartTokens.removeAll { time.covers($0.at) }
    next.forgetTags(time)
    if record.user != nil, next.user == nil { next.fingerprint = fingerprint }
    return next
  }

  // MARK: - Tokens

  /// A token that a device had, or named in a registration.
  package struct HeldToken: Hashable, Sendable {
    /// `token` or `startToken`.
    package var set: DeviceSet
    /// Of its registration, Unix milliseconds.
    package var at: Int64

    package init(set: DeviceSet, at: Int64) {
      self.set = set
      self.at = at
    }
  }

  /// The tokens that a change leaves without a device. An earlier registration must not bring them back: the caller remembers them.
  /// - Parameters:
  ///   - named: those of the registration.
  ///   - before: the device before the change.
  ///   - after: the same after it; nil: it is removed.
  ///   - others: other devices after the change.
  package static func givenUp(
    _ named: [HeldToken] = [], from before: DeviceRecord?, to after: DeviceRecord?, others: [DeviceRecord] = []
  ) -> [HeldToken] {
    var latest: [HeldToken] = []
    for held in named + (before?.heldTokens ?? []) where after?.hasToken(of: held.set) != true {
      if others.contains(where: { $0.hasToken(of: held.set) }) { continue }
      if let place = latest.firstIndex(where: { $0.set == held.set }) {
        if latest[place].at < held.at { latest[place] = held }
      } else {
        latest.append(held)
      }
    }
    return latest
  }

  /// Other devices without the tokens that a registration of the device with this id takes from them.
  package static func yielding(
    _ tokens: [DeviceSet], _ holders: [DeviceRecord], to id: String, at: Int64, now: Int64
  ) -> [DeviceRecord] {
    let time = RegistrationTime(at: at, now: now)
    return holders.map { holder in tokens.reduce(holder) { yielding($1, of: $0, to: id, time) } }
  }

  private static func yielding(
    _ set: DeviceSet, of other: DeviceRecord, to id: String, _ time: RegistrationTime
  ) -> DeviceRecord {
    var other = other
    switch set {
    case .token(let bytes):
      if let own = other.token, own.bytes == bytes, !isHeld(other, own, time, against: id) { other.loseToken(own) }
    case .startToken(let bytes):
      for start in other.startTokens where start.token.bytes == bytes && !isHeld(other, start.token, time, against: id)
      {
        other.loseStartToken(start)
      }
    case .everyone, .id, .user, .hasToken, .hasPushToStart, .locale, .osVersion, .seen, .tagText, .tagFlag, .tagExists,
      .tagIsNumber, .tagBit:
      break
    }
    return other
  }

  private static func changeToken(
    _ record: inout DeviceRecord, _ change: FieldChange<[UInt8]>, _ time: RegistrationTime, _ others: [DeviceRecord],
    _ outdated: Set<DeviceSet>
  ) {
    let known = record.token?.at ?? record.times.tokenRemoval
    switch change {
    case .keep:
      break
    case .remove:
      guard !time.isOlder(than: known) else { return }
      record.token = nil
      record.times.tokenRemoval = time.at
    case .set(let bytes):
      switch time.order(to: known) {
      case .older: return
      case .same: guard let own = record.token?.bytes, own.lexicographicallyPrecedes(bytes) else { return }
      case .newer: break
      }
      // Another device registered this token later: this device has replaced its old token, so it has none now.
      let isElsewhere = outdated.contains(.token(bytes)) || others.contains { $0.token?.bytes == bytes }
      guard !isElsewhere, revive(bytes, &record, at: time.at) else {
        record.token = nil
        record.times.tokenRemoval = time.at
        return
      }
      record.token = DeviceRecord.Token(bytes: bytes, at: time.at)
      record.times.tokenRemoval = nil
    }
  }

  /// Whether another device registered its token later. Of two with the same time, the larger id has it.
  private static func isHeld(
    _ other: DeviceRecord, _ token: DeviceRecord.Token, _ time: RegistrationTime, against id: String
  ) -> Bool {
    switch time.order(to: token.at) {
    case .older: true
    case .same: ByteText(id) < ByteText(other.id)
    case .newer: false
    }
  }

  private static func changeStartTokens(
    _ record: inout DeviceRecord, _ registration: DeviceRegistration, _ time: RegistrationTime,
    _ others: [DeviceRecord], _ outdated: Set<DeviceSet>
  ) {
    if registration.removesStartTokens, time.isNewer(than: record.times.startTokensRemoval) {
      record.startTokens.removeAll { time.isNewer(than: $0.token.at) }
      record.times.startTokensRemoval = time.at
      record.removedStartTokens.removeAll { $0.at < time.at }
    }
    if registration.startTokens.isEmpty { return }
    for change in registration.startTokens { changeStartToken(&record, change, time, others, outdated) }
    record.startTokens.sort { ByteText($0.type) < ByteText($1.type) }
  }

  private static func changeStartToken(
    _ record: inout DeviceRecord, _ change: DeviceRegistration.StartToken, _ time: RegistrationTime,
    _ others: [DeviceRecord], _ outdated: Set<DeviceSet>
  ) {
    let removal = record.removedStartTokens.first { $0.name.hasBytes(of: change.type) }
    guard !time.isOlder(than: record.times.startTokensRemoval), time.isNewer(than: removal?.at) else { return }
    let known = record.startTokens.first { $0.type.hasBytes(of: change.type) }?.token
    switch time.order(to: known?.at) {
    case .older: return
    case .same:
      if let bytes = change.token, let known, !known.bytes.lexicographicallyPrecedes(bytes) { return }
    case .newer: break
    }
    record.startTokens.removeAll { $0.type.hasBytes(of: change.type) }
    record.removedStartTokens.removeAll { $0.name.hasBytes(of: change.type) }
    if let bytes = change.token, !outdated.contains(.startToken(bytes)),
      !others.contains(where: { $0.hasToken(of: .startToken(bytes)) }), revive(bytes, &record, at: time.at)
    {
      record.startTokens.append(.init(type: change.type, token: .init(bytes: bytes, at: time.at)))
    } else {
      record.removedStartTokens.append(.init(name: change.type, at: time.at))
    }
  }

  /// Whether a token registered at this time is alive: no 410 is as late. Removes a live token from the gone ones.
  private static func revive(_ token: [UInt8], _ record: inout DeviceRecord, at: Int64) -> Bool {
    guard !record.goneTokens.isEmpty else { return true }
    let fingerprint = DeviceRecord.GoneToken.fingerprint(of: token)
    guard let index = record.goneTokens.firstIndex(where: { $0.fingerprint == fingerprint }) else { return true }
    guard record.goneTokens[index].at < at else { return false }
    record.goneTokens.remove(at: index)
    return true
  }
}

extension DeviceRegistration {
  /// The sets of the tokens that it registers, each once.
  package var tokens: [DeviceSet] {
    var sets: [DeviceSet] = []
    if case .set(let token) = token { sets.append(.token(token)) }
    for start in startTokens {
      if let token = start.token, !sets.contains(.startToken(token)) { sets.append(.startToken(token)) }
    }
    return sets
  }
}

extension DeviceRecord {
  fileprivate var heldTokens: [DeviceChange.HeldToken] {
    (token.map { [DeviceChange.HeldToken(set: .token($0.bytes), at: $0.at)] } ?? [])
      + startTokens.map { DeviceChange.HeldToken(set: .startToken($0.token.bytes), at: $0.token.at) }
  }

  /// An older registration does not bring another token back.
  fileprivate mutating func loseToken(_ lost: Token) {
    token = nil
    times.tokenRemoval = lost.at
  }

  fileprivate mutating func loseStartToken(_ lost: StartToken) {
    startTokens.removeAll { $0.type.hasBytes(of: lost.type) }
    removedStartTokens.append(Removal(name: lost.type, at: lost.token.at))
    removedStartTokens.sort { ByteText($0.name) < ByteText($1.name) }
  }
}
