import PushCore

/// One change of a device: read, decide, store if nobody changed it meanwhile, else retry.
final class DeviceTransaction {
  enum Action {
    case register(DeviceRegistration, at: Int64)
    /// A token got a 410.
    case lose([UInt8], at: Int64)
    /// Removes what was registered up to then of the device, if it belongs to `user`, if not nil.
    case forget(at: Int64, user: String?)
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
  /// The registration is older than a forget: only forget the device.
  private var isForgotten = false
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

  /// The device or its user was forgotten, not before the registration: the device is removed, in whichever order the
  /// two came.
  func forget(at: Int64) {
    action = .forget(at: at, user: nil)
    isForgotten = true
  }

  func answer(_ result: Result<RegistrationAnswer, DeviceRegistryFailure>) {
    then(isForgotten ? result.map { _ in .forgotten } : result)
  }

  /// The sets of the registration's tokens, or of the token that it looks for, each once.
  var tokenSets: [DeviceSet] {
    if case .token(let bytes) = place { return [.token(bytes)] }
    guard case .register(let registration, _) = action else { return [] }
    var sets: [DeviceSet] = []
    if case .set(let token) = registration.token { sets.append(.token(token)) }
    for start in registration.startTokens {
      if let token = start.token, !sets.contains(.startToken(token)) { sets.append(.startToken(token)) }
    }
    return sets
  }

  /// The number of records that it reads at most: its device's, and those of its tokens' holders.
  var recordsMaximum: Int {
    guard case .register(let registration, _) = action else { return 1 }
    return 2 + registration.startTokens.count
  }

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
      return .store(commit)
    case .forget(let at, let user):
      guard let known = found.device else { return .done(.unchanged) }
      guard user.map({ known.record.user?.hasBytes(of: $0) ?? false }) ?? true else { return .done(.unchanged) }
      var commit = DeviceCommit()
      if let left = DeviceChange.forgetting(known.record, at: at, now: now, fingerprint: fingerprint) {
        if left == known.record { commit.answer = .older }
        commit.replace(known, by: left, words)
      } else {
        commit.remove(known)
      }
      commit.marks = [(.device(known.record.id), at)]
      return .store(commit)
    }
  }

  private func register(
    _ registration: DeviceRegistration, at: Int64, now: Int64, _ fingerprint: UInt32, _ found: Found,
    _ words: borrowing DeviceWords
  ) -> Step {
    if isAppearance, found.device != nil { return .done(.unchanged) }
    let outcome = DeviceChange.registering(
      registration, at: isAppearance ? DeviceLimits.timeMinimum : at, now: now, onto: found.device?.record,
      holders: found.holders.map(\.record), fingerprint: fingerprint)
    switch outcome {
    case .refused(let error): return .done(.refused(error))
    case .changed(let next, let losers):
      var commit = DeviceCommit()
      commit.forgottenBy = [DeviceCommit.ForgottenBy(subject: .device(next.id), takesDevice: false)]
      if let user = next.user {
        commit.forgottenBy.append(DeviceCommit.ForgottenBy(subject: .user(user), takesDevice: true))
      }
      // The device has had another user since.
      if case .set(let user) = registration.user, !(next.user?.hasBytes(of: user) ?? false) {
        commit.forgottenBy.append(DeviceCommit.ForgottenBy(subject: .user(user), takesDevice: false))
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
      // Nobody else may have got a token that is new here.
      for (set, ordinals) in zip(tokenSets, found.tokenSets)
      where next.hasToken(of: set) && !(found.device?.isIn(set) ?? false) {
        commit.guards.append((set, ordinals))
      }
      for loser in losers {
        if let holder = found.holders.first(where: { $0.record.id.hasBytes(of: loser.id) }) {
          commit.replace(holder, by: loser, words)
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
      if commit.changesNothing {
        guard next.at > at else { return .done(.unchanged) }
        // It may be older than a forget too, and so tell that the device belonged to that user.
        commit.answer = .older
      }
      return .store(commit)
    }
  }
}
