import PushCore

/// One change of a device: read, decide, store if nobody changed it meanwhile, else retry.
final class DeviceTransaction {
  enum Action {
    case register(DeviceRegistration, at: Int64)
    /// A token got a 410.
    case lose([UInt8], at: Int64)
    /// Removes what was registered up to then of the device.
    /// - owner: only if it was this user's then; nil: whoever's it is.
    case forget(at: Int64, owner: Owner?)
    /// A registration that a forget cancels: the device had its tokens all the same, so no device that had them before keeps them.
    /// - forgottenAt: the device is forgotten too, as of then.
    case cancel([DeviceSet], at: Int64, forgottenAt: Int64?)
  }

  /// Whose device it is, or was.
  struct Owner: Hashable {
    let user: String
    /// It is another's since this time, Unix milliseconds; nil: it is still this user's.
    var until: Int64?

    /// Whether the device was the user's at that time.
    func had(_ record: DeviceRecord, at: Int64, now: Int64) -> Bool {
      let owner = record.owner(at: at, now: now)
      if owner?.user == DeviceRecord.Owner(since: at, user: user).user { return true }
      // The build before remembered no earlier owner in the record.
      guard let until, let owner, owner.since == .min else { return false }
      return at < until
    }
  }

  enum Place {
    case id(String)
    case ordinal(UInt32)
    /// The device with this alert token.
    case token([UInt8])
  }

  /// A record, as read.
  struct Known {
    var ordinal: UInt32
    var bytes: [UInt8]
    var record: DeviceRecord
    /// The numbers of its words.
    var words: Set<UInt32>

    /// The sets that it is in. No set has the push-to-start tokens of a record of version 1.
    var memberships: [DeviceSet] { record.memberships.filter { !isMissing(in: $0) } }

    /// Whether it is in the set of a token.
    func isIn(_ set: DeviceSet) -> Bool { record.hasToken(of: set) && !isMissing(in: set) }

    private func isMissing(in set: DeviceSet) -> Bool {
      guard bytes.first == DeviceRecord.versionWithoutTimes, case .startToken = set else { return false }
      return true
    }
  }

  /// The result of the read.
  struct Found {
    /// nil: there is no such device.
    var device: Known?
    /// The ordinals in the set of its id, as read.
    var idSet: [UInt8] = []
    /// Other devices with one of the registration's tokens, each once.
    var holders: [Known] = []
    /// The ordinals in the set of each token, in the order of `tokenSets`.
    var tokenSets: [[UInt8]] = []
    /// For a new device.
    var newOrdinal: UInt32?
  }

  enum Step {
    case done(RegistrationAnswer)
    case store(DeviceCommit)
  }

  let place: Place
  private(set) var action: Action
  private let then: (Result<RegistrationAnswer, DeviceRegistryFailure>) -> Void
  var attempts = 0
  /// The device was seen in something other than a registration: only add it if it is unknown, with the earliest time.
  private let isAppearance: Bool
  /// Tokens of the registration that another device registered no earlier, and gave up since.
  var outdated: Set<DeviceSet> = []
  /// The set of its id holds another device with the same hash: ask for an ordinal anyway.
  var wantsOrdinal = false

  init(
    _ place: Place, _ action: Action, isAppearance: Bool = false,
    then: @escaping (Result<RegistrationAnswer, DeviceRegistryFailure>) -> Void
  ) {
    self.place = place
    self.action = action
    self.isAppearance = isAppearance
    self.then = then
  }

  /// The device or its user was forgotten, not before the registration.
  /// - Parameter forgottenAt: the device is forgotten too, in whichever order the two came; nil: it was before, or is another's.
  func cancel(forgottenAt: Int64?) {
    guard case .register(let registration, let at) = action else { return }
    action = .cancel(registration.tokens, at: at, forgottenAt: forgottenAt)
  }

  func answer(_ result: Result<RegistrationAnswer, DeviceRegistryFailure>) {
    if case .cancel = action { then(result.map { _ in .forgotten }) } else { then(result) }
  }

  /// The sets of the registration's tokens, or of the token that it looks for, each once.
  var tokenSets: [DeviceSet] {
    if case .token(let bytes) = place { return [.token(bytes)] }
    switch action {
    case .register(let registration, _): return registration.tokens
    case .cancel(let tokens, _, _): return tokens
    case .lose, .forget: return []
    }
  }

  /// The number of records that it reads at most: its device's, and those of its tokens' holders.
  var recordsMaximum: Int { 1 + tokenSets.count }

  /// Decides by what was read.
  /// - Parameters:
  ///   - now: Unix milliseconds.
  ///   - fingerprint: of a record that it makes, or whose user it forgets.
  func decide(_ found: Found, now: Int64, fingerprint: UInt32, _ words: borrowing DeviceWords) -> Step {
    switch action {
    case .register(let registration, let at):
      return register(registration, at: at, now: now, fingerprint, found, words)
    case .lose(let token, let at):
      guard let known = found.device, let next = DeviceChange.losing(token, at: at, now: now, from: known.record) else {
        return .done(.unchanged)
      }
      var commit = DeviceCommit()
      commit.replace(known, by: next, words)
      commit.giveUp(DeviceChange.givenUp(from: known.record, to: next), by: known.record.id)
      return .store(commit)
    case .forget(let at, let owner):
      guard let known = found.device, owner.map({ $0.had(known.record, at: at, now: now) }) ?? true else {
        return .done(.unchanged)
      }
      var commit = DeviceCommit()
      let left = forget(known, at: at, now: now, fingerprint, words, &commit)
      commit.giveUp(DeviceChange.givenUp(from: known.record, to: left), by: known.record.id)
      return .store(commit)
    case .cancel(let tokens, let at, let forgottenAt):
      return cancel(tokens, at: at, forgottenAt: forgottenAt, now: now, fingerprint, found, words)
    }
  }

  /// Returns what is left of it.
  private func forget(
    _ known: Known, at: Int64, now: Int64, _ fingerprint: UInt32, _ words: borrowing DeviceWords,
    _ commit: inout DeviceCommit
  ) -> DeviceRecord? {
    let left = DeviceChange.forgetting(known.record, at: at, now: now, fingerprint: fingerprint)
    if let left {
      if left == known.record { commit.answer = .older }
      commit.replace(known, by: left, words)
    } else {
      commit.remove(known)
    }
    commit.forget(known.record.id, at: at)
    return left
  }

  private func cancel(
    _ tokens: [DeviceSet], at: Int64, forgottenAt: Int64?, now: Int64, _ fingerprint: UInt32, _ found: Found,
    _ words: borrowing DeviceWords
  ) -> Step {
    guard case .id(let id) = place else { preconditionFailure("a registration names its device") }
    var commit = DeviceCommit()
    var own = found.device?.record
    if let known = found.device, let forgottenAt {
      own = forget(known, at: forgottenAt, now: now, fingerprint, words, &commit)
    }
    let holders = found.holders.map(\.record)
    let others = DeviceChange.yielding(tokens, holders, to: id, at: at, now: now)
    for (holder, next) in zip(found.holders, others) where holder.record != next {
      commit.replace(holder, by: next, words)
    }
    commit.giveUp(
      DeviceChange.givenUp(
        tokens.map { .init(set: $0, at: at) }, from: found.device?.record, to: own, others: others), by: id)
    if commit.changesNoRecord, commit.marksNothing { return .done(.forgotten) }
    for (set, ordinals) in zip(tokenSets, found.tokenSets) { commit.guards.append((set, ordinals)) }
    return .store(commit)
  }

  private func register(
    _ registration: DeviceRegistration, at: Int64, now: Int64, _ fingerprint: UInt32, _ found: Found,
    _ words: borrowing DeviceWords
  ) -> Step {
    if isAppearance, found.device != nil { return .done(.unchanged) }
    let outcome = DeviceChange.registering(
      registration, at: isAppearance ? DeviceLimits.timeMinimum : at, now: now, onto: found.device?.record,
      holders: found.holders.map(\.record), outdated: outdated, fingerprint: fingerprint)
    switch outcome {
    case .refused(let error): return .done(.refused(error))
    case .changed(let next, let losers):
      var commit = DeviceCommit()
      commit.forgottenBy = [.init(subject: .device(next.id))]
      // A forget of a user is about the device only if it was the user's then. It may come before what tells that, or after.
      if let user = next.user {
        commit.forgottenBy.append(.init(subject: .user(user), owned: (since: next.ownedSince ?? at, until: .max)))
      }
      if case .set(let user) = registration.user, let until = next.ownedUntil(by: user, at: at) {
        commit.forgottenBy.append(.init(subject: .user(user), owned: (since: at, until: until)))
        note(user, until: until, found, &commit)
      }
      if let user = found.device?.record.user, !next.isOf(user) {
        note(user, until: next.times.user ?? at, found, &commit)
      }
      commit.registeredAt = at
      if let known = found.device {
        commit.replace(known, by: next, words)
      } else {
        guard let ordinal = found.newOrdinal else { preconditionFailure("a new device has an ordinal") }
        commit.add(next, at: ordinal, words)
        commit.guards.append((.id(next.id), found.idSet))
        commit.answer = .added
      }
      // Nobody else may have got a token that is new here, or that the device had before.
      let named = tokenSets.map { DeviceChange.HeldToken(set: $0, at: at) }
      let others = found.holders.map { holder in
        losers.first { $0.id.hasBytes(of: holder.record.id) } ?? holder.record
      }
      let givenUp = DeviceChange.givenUp(named, from: found.device?.record, to: next, others: others)
      commit.giveUp(givenUp, by: next.id)
      commit.claimant = next.id
      for (set, ordinals) in zip(tokenSets, found.tokenSets) where !(found.device?.isIn(set) ?? false) {
        if next.hasToken(of: set) { commit.claims.append(set) }
        if next.hasToken(of: set) || givenUp.contains(where: { $0.set == set }) {
          commit.guards.append((set, ordinals))
        }
      }
      for loser in losers {
        if let holder = found.holders.first(where: { $0.record.id.hasBytes(of: loser.id) }) {
          commit.replace(holder, by: loser, words)
          noteStartMove(from: holder, to: next, found, &commit)
        }
      }
      if next.osVersion != found.device?.record.osVersion, let version = next.osVersion {
        commit.osVersions = [version]
      }
      guard commit.recordBytes <= DeviceLimits.recordBytesMaximum else {
        return .done(
          .refused(
            JobError(
              field: "tags",
              rule: """
                must leave the device a record of at most \(DeviceLimits.recordBytesMaximum) bytes, not \
                \(commit.recordBytes)
                """)))
      }
      if commit.changesNoRecord {
        guard next.at > at || !commit.marksNothing else { return .done(.unchanged) }
        // It may be older than a forget too, and so tell that the device belonged to that user.
        commit.answer = .older
      }
      return .store(commit)
    }
  }

  private func noteStartMove(from holder: Known, to next: DeviceRecord, _ found: Found, _ commit: inout DeviceCommit) {
    guard let ordinal = found.device?.ordinal ?? found.newOrdinal,
      holder.record.startTokens.contains(where: { next.hasToken(of: .startToken($0.token.bytes)) })
    else { return }
    commit.startMoves.append(
      StartMove(
        from: .init(ordinal: holder.ordinal, fingerprint: holder.record.fingerprint),
        to: .init(ordinal: ordinal, fingerprint: next.fingerprint)))
  }

  /// Remembers that the device was this user's.
  private func note(_ user: String, until: Int64, _ found: Found, _ commit: inout DeviceCommit) {
    guard let ordinal = found.device?.ordinal ?? found.newOrdinal else { return }
    commit.formerUsers.append((user, FormerDevice(ordinal: ordinal, until: until)))
  }
}

extension DeviceRecord {
  func isOf(_ user: String) -> Bool { self.user?.hasBytes(of: user) ?? false }
}

/// A device that was a user's, and is another's or nobody's.
struct FormerDevice: Hashable {
  let ordinal: UInt32
  /// Unix milliseconds.
  let until: Int64

  init(ordinal: UInt32, until: Int64) {
    self.ordinal = ordinal
    self.until = until
  }

  /// `<ordinal>:<until>`.
  init?(text: String) {
    let parts = text.split(separator: ":")
    guard parts.count == 2, let ordinal = UInt32(parts[0]), let until = Int64(parts[1]) else { return nil }
    self.init(ordinal: ordinal, until: until)
  }

  var text: String { "\(ordinal):\(until)" }
}
