import PushCore

/// The writes of a transaction, all or nothing.
struct DeviceCommit {
  private struct RecordChange {
    var ordinal: UInt32
    /// Empty: no record.
    var old: [UInt8]
    var new: [UInt8]
  }

  private struct SetChange {
    var name: DeviceSetName
    var ordinal: UInt32
    var enters: Bool
  }

  private var records: [RecordChange] = []
  private var sets: [SetChange] = []
  /// Words that the new records use by number and the old ones did not.
  private(set) var words: [UInt32: String] = [:]
  /// A forget mark that is not older than the registration cancels it.
  struct ForgottenBy {
    var subject: ForgottenSubject
    /// Of a user: the device was the user's, Unix milliseconds. A mark of that time forgets the device too, another one nothing.
    var owned: (since: Int64, until: Int64)?
  }

  var forgottenBy: [ForgottenBy] = []
  var registeredAt: Int64 = 0
  /// Tokens that the registration's device gets. The mark of one that another device gave up, and that is not older than the registration,
  /// stops the change.
  var claims: [DeviceSet] = []
  var claimant = ""
  /// Sets that must still hold the ordinals that were read.
  var guards: [(set: DeviceSet, ordinals: [UInt8])] = []
  private var forgotten: [(device: String, at: Int64)] = []
  private var givenUp: [(token: DeviceSetName, at: Int64, device: String)] = []
  /// Users whose the device was.
  var formerUsers: [(user: String, device: FormerDevice)] = []
  var osVersions: [OSVersion] = []
  var startMoves: [StartMove] = []
  /// Once it is stored.
  var answer = RegistrationAnswer.changed

  var recordCount: Int { records.count }
  /// Of the largest record.
  var recordBytes: Int { records.map(\.new.count).max() ?? 0 }
  var changesNoRecord: Bool { records.allSatisfy { $0.old == $0.new } }
  /// It leaves no mark.
  var marksNothing: Bool { forgotten.isEmpty && givenUp.isEmpty }

  mutating func add(_ record: DeviceRecord, at ordinal: UInt32, _ table: borrowing DeviceWords) {
    let (bytes, words) = record.encoded(table)
    records.append(RecordChange(ordinal: ordinal, old: [], new: bytes))
    self.words.merge(words) { old, _ in old }
    change(DeviceSetChanges(from: [], to: record.memberships), ordinal)
  }

  mutating func replace(_ known: DeviceTransaction.Known, by next: DeviceRecord, _ table: borrowing DeviceWords) {
    let (bytes, words) = next.encoded(table)
    records.append(RecordChange(ordinal: known.ordinal, old: known.bytes, new: bytes))
    self.words.merge(words.filter { !known.words.contains($0.key) }) { old, _ in old }
    change(DeviceSetChanges(from: known.memberships, to: next.memberships), known.ordinal)
  }

  mutating func remove(_ known: DeviceTransaction.Known) {
    records.append(RecordChange(ordinal: known.ordinal, old: known.bytes, new: []))
    change(DeviceSetChanges(from: known.memberships, to: []), known.ordinal)
  }

  private mutating func change(_ changes: DeviceSetChanges, _ ordinal: UInt32) {
    for name in changes.added { sets.append(SetChange(name: name, ordinal: ordinal, enters: true)) }
    for name in changes.removed { sets.append(SetChange(name: name, ordinal: ordinal, enters: false)) }
  }

  mutating func forget(_ device: String, at: Int64) { forgotten.append((device, at)) }

  /// Remembers tokens that no device has any more.
  /// - Parameter device: had them last.
  mutating func giveUp(_ tokens: [DeviceChange.HeldToken], by device: String) {
    for token in tokens { givenUp.append((DeviceSetName(token.set), token.at, device)) }
  }

  // MARK: - To Redis

  /// The arguments of `DeviceScript.commit` for fewer than 256 commits.
  /// - Parameter secret: of the forget marks, if Redis has none.
  static func arguments(_ commits: [DeviceCommit], secret: String) -> RedisArguments {
    var subjects: [ForgottenSubject: Int] = [:]
    var names: [String] = []
    var tokens: [DeviceSetName: Int] = [:]
    var tokenNames: [String] = []
    var words: [UInt32: String] = [:]
    var versions: Set<OSVersion> = []
    for commit in commits {
      for subject in commit.forgottenBy.map(\.subject) where subjects[subject] == nil {
        names.append(RegistryKeys.text(of: subject))
        subjects[subject] = names.count
      }
      for token in commit.claims.map(DeviceSetName.init) where tokens[token] == nil {
        tokenNames.append(RegistryKeys.text(of: token))
        tokens[token] = tokenNames.count
      }
      words.merge(commit.words) { old, _ in old }
      versions.formUnion(commit.osVersions)
    }
    var arguments = RedisArguments()
    arguments.append(secret)
    for count in [names.count, tokenNames.count, words.count, versions.count] { arguments.append(count) }
    for name in names + tokenNames { arguments.append(name) }
    // Sorted, so that equal commits give equal bytes.
    for (number, text) in words.sorted(by: { $0.key < $1.key }) {
      arguments.append(DeviceCommit.bytes(number))
      arguments.append(text)
    }
    for version in versions.sorted() { arguments.append(version.text) }
    arguments.append(commits.count)
    for commit in commits { commit.append(to: &arguments, subjects, tokens) }
    append(sets: commits, to: &arguments)
    return arguments
  }

  private func append(
    to arguments: inout RedisArguments, _ subjects: [ForgottenSubject: Int], _ tokens: [DeviceSetName: Int]
  ) {
    let counts = [
      forgottenBy.count, claims.count, guards.count, records.count, forgotten.count, givenUp.count, formerUsers.count,
    ]
    for count in counts { arguments.append(count) }
    arguments.append(registeredAt)
    arguments.append(RegistryKeys.text(of: .device(claimant)))
    for forgotten in forgottenBy {
      arguments.append(subjects[forgotten.subject] ?? 0)
      arguments.append(forgotten.owned?.since ?? 0)
      arguments.append(forgotten.owned?.until ?? -1)
    }
    for token in claims { arguments.append(tokens[DeviceSetName(token)] ?? 0) }
    for (set, ordinals) in guards {
      let name = DeviceSetName(set)
      arguments.append(Int64(name.bucket))
      arguments.append(name.wordBytes)
      arguments.append(ordinals)
    }
    for record in records {
      arguments.append(Int64(record.ordinal / 64))
      arguments.append(Int64(record.ordinal % 64))
      arguments.append(record.old)
      arguments.append(record.new)
    }
    for (device, at) in forgotten {
      arguments.append(RegistryKeys.text(of: .device(device)))
      arguments.append(at)
      arguments.append(DeviceLimits.forgottenSeconds)
    }
    for (token, at, device) in givenUp {
      arguments.append(RegistryKeys.text(of: token))
      arguments.append(at)
      arguments.append(DeviceLimits.forgottenSeconds)
      arguments.append(RegistryKeys.text(of: .device(device)))
    }
    for (user, device) in formerUsers {
      arguments.append(RegistryKeys.text(of: .user(user)))
      arguments.append(device.text)
      arguments.append(DeviceLimits.forgottenSeconds)
    }
  }

  /// Ordinals that each set gains and loses, by chunk.
  private static func append(sets commits: [DeviceCommit], to arguments: inout RedisArguments) {
    var sets: [(name: DeviceSetName, parts: [(chunk: Int, changes: [UInt8])])] = []
    var indexes: [DeviceSetName: Int] = [:]
    for (index, commit) in commits.enumerated() {
      for change in commit.sets {
        let set = indexes[change.name] ?? sets.count
        if set == sets.count {
          indexes[change.name] = set
          sets.append((change.name, []))
        }
        let chunk = OrdinalChunk.index(of: change.ordinal)
        let part = sets[set].parts.firstIndex { $0.chunk == chunk } ?? sets[set].parts.count
        if part == sets[set].parts.count { sets[set].parts.append((chunk, [])) }
        let place = OrdinalChunk.place(of: change.ordinal)
        sets[set].parts[part].changes.append(UInt8(index + 1))
        sets[set].parts[part].changes.append(change.enters ? 1 : 0)
        sets[set].parts[part].changes.append(UInt8(truncatingIfNeeded: place))
        sets[set].parts[part].changes.append(UInt8(truncatingIfNeeded: place >> 8))
      }
    }
    for set in sets {
      arguments.append(Int64(set.name.bucket))
      arguments.append(set.name.wordBytes)
      arguments.append(set.name.wordDigits)
      arguments.append(set.parts.count)
      for part in set.parts {
        arguments.append(part.chunk)
        arguments.append(part.changes)
      }
    }
  }

  /// Little-endian.
  static func bytes(_ number: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32($0 * 8)) } }
}
