import PushCore

/// What a transaction stores, all or nothing.
struct DeviceCommit {
  private struct RecordChange {
    var ordinal: UInt32
    /// Empty: there is none.
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
  /// Words that a record names by number and did not before.
  private(set) var words: [UInt32: String] = [:]
  /// A forget of one of these that is as late as the registration ends it.
  var forgottenBy: [ForgottenSubject] = []
  var registeredAt: Int64 = 0
  /// Sets that must hold the ordinals that were read.
  var guards: [(set: DeviceSet, ordinals: [UInt8])] = []
  var marks: [(subject: ForgottenSubject, at: Int64)] = []
  var osVersions: [OSVersion] = []
  var isNew = false

  /// Of the largest record.
  var recordBytes: Int { records.map(\.new.count).max() ?? 0 }
  var changesNothing: Bool { records.allSatisfy { $0.old == $0.new } }

  mutating func add(_ record: DeviceRecord, at ordinal: UInt32, _ table: borrowing DeviceWords) {
    let (bytes, words) = record.encoded(table)
    records.append(RecordChange(ordinal: ordinal, old: [], new: bytes))
    self.words.merge(words) { old, _ in old }
    change(DeviceSetChanges(from: nil, to: record), ordinal)
  }

  mutating func replace(_ known: DeviceTransaction.Known, by next: DeviceRecord, _ table: borrowing DeviceWords) {
    let (bytes, words) = next.encoded(table)
    records.append(RecordChange(ordinal: known.ordinal, old: known.bytes, new: bytes))
    self.words.merge(words.filter { !known.words.contains($0.key) }) { old, _ in old }
    change(DeviceSetChanges(from: known.record, to: next), known.ordinal)
  }

  mutating func remove(_ known: DeviceTransaction.Known) {
    records.append(RecordChange(ordinal: known.ordinal, old: known.bytes, new: []))
    change(DeviceSetChanges(from: known.record, to: nil), known.ordinal)
  }

  private mutating func change(_ changes: DeviceSetChanges, _ ordinal: UInt32) {
    for name in changes.added { sets.append(SetChange(name: name, ordinal: ordinal, enters: true)) }
    for name in changes.removed { sets.append(SetChange(name: name, ordinal: ordinal, enters: false)) }
  }

  // MARK: - To Redis

  /// The arguments of `DeviceScript.commit` for these.
  static func arguments(_ commits: [DeviceCommit]) -> RedisArguments {
    var arguments = RedisArguments()
    arguments.append(commits.count)
    var order: [DeviceSetName] = []
    var changes: [DeviceSetName: [UInt8]] = [:]
    for (index, commit) in commits.enumerated() {
      commit.append(to: &arguments)
      for change in commit.sets {
        if changes[change.name] == nil { order.append(change.name) }
        changes[change.name, default: []] +=
          [
            UInt8(truncatingIfNeeded: index + 1), UInt8(truncatingIfNeeded: (index + 1) >> 8), change.enters ? 1 : 0,
          ] + bytes(change.ordinal)
      }
    }
    for name in order {
      arguments.append(Int64(name.bucket))
      arguments.append(name.wordBytes)
      arguments.append(name.wordDigits)
      arguments.append(changes[name] ?? [])
    }
    return arguments
  }

  private func append(to arguments: inout RedisArguments) {
    for count in [forgottenBy.count, guards.count, records.count, words.count, marks.count, osVersions.count] {
      arguments.append(count)
    }
    for subject in forgottenBy {
      arguments.append(RegistryKeys.forgottenName(subject))
      arguments.append(registeredAt)
    }
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
    for (number, text) in words {
      arguments.append(DeviceCommit.bytes(number))
      arguments.append(text)
    }
    for (subject, at) in marks {
      arguments.append(RegistryKeys.forgottenName(subject))
      arguments.append(at)
      arguments.append(DeviceLimits.forgottenSeconds)
    }
    for version in osVersions { arguments.append(version.text) }
  }

  /// Little-endian.
  static func bytes(_ number: UInt32) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> UInt32($0 * 8)) } }
}
