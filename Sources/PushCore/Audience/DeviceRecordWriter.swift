/// The encoding of a record: about 240 bytes for a device with two tokens, a user and eight tags.
///
/// A version, the fingerprint in four bytes, the lowest first, the fields that are present (`Field`), the id, the time,
/// then the fields in this order. A number is a varint: seven bits a byte, the lowest first, 128 set if more follow. A
/// signed number has its sign in the lowest bit. An id is 16 bytes if it is a UUID, else text after its length.
///
/// If not all fields are of the record's time, the version has `timesFlag`, the time is that of most fields, and the
/// others follow it (`DeviceRecordTimes`): their number times four, 2 if some fields have none, 1 if the first is the
/// record's; then each as the one before minus itself, and the places of its fields. A place is its distance from the one
/// before (-1 before the first), times two, 1 if another follows; 0: no place.
/// Times of gone tokens and increments are stored as the record's time minus theirs.
///
/// Whose the device was is told only if its user is not all that is known: `longOwnedFlag` of the version says that it has been the user's for
/// long; else `ownersFlag`, and at the end how many owners there are, times two, 1 if the first has had it for long. From the last one on each
/// has the time of the one after it minus its own, that of the last from the user's, and before it 8 bytes of its hash: the last has none.
///
/// Version 3 had no owners. Version 2 stored the number of its time after each field. Version 1 had no fingerprint, and no times but the record's
/// and those of tokens.
extension DeviceRecord {
  package static let version: UInt8 = 4
  static let versionWithoutOwners: UInt8 = 3
  static let versionWithNumberedTimes: UInt8 = 2
  package static let versionWithoutTimes: UInt8 = 1
  /// In the byte of the version.
  static let timesFlag: UInt8 = 128
  static let longOwnedFlag: UInt8 = 64
  static let ownersFlag: UInt8 = 32

  /// Bits of the first number.
  enum Field {
    static let user: UInt64 = 1
    static let token: UInt64 = 2
    static let startTokens: UInt64 = 4
    static let locale: UInt64 = 8
    static let osVersion: UInt64 = 16
    static let timeZone: UInt64 = 32
    static let tags: UInt64 = 64
    static let goneTokens: UInt64 = 128
    /// How many, and each: the tag's index, fingerprint, time, addend. Version 1: a fingerprint.
    static let increments: UInt64 = 256
    /// Version 1: before the last one: how many, and each.
    static let moreIncrements: UInt64 = 512
    /// Version 2: how many times follow the record's, and each.
    static let times: UInt64 = 1024
    /// Bits of `TimedAbsence`, and the time of each.
    static let absences: UInt64 = 2048
    static let removedTags: UInt64 = 4096
    static let removedStartTokens: UInt64 = 8192
    static let allOfVersion1: UInt64 = 1023
    static let allOfVersion2: UInt64 = 16_383 - moreIncrements
    static let all: UInt64 = allOfVersion2 - times
  }

  /// Bits of times without a value.
  enum TimedAbsence {
    static let user: UInt64 = 1
    static let locale: UInt64 = 2
    static let osVersion: UInt64 = 4
    static let timeZone: UInt64 = 8
    static let token: UInt64 = 16
    static let startTokens: UInt64 = 32
    static let tags: UInt64 = 64
    static let increments: UInt64 = 128
    static let all: UInt64 = 255
  }

  /// The times without a value, in the order of their bits.
  var absences: [(bit: UInt64, at: Int64)] {
    var all: [(bit: UInt64, at: Int64)] = []
    func add(_ bit: UInt64, _ at: Int64?) { if let at { all.append((bit, at)) } }
    if user == nil { add(TimedAbsence.user, times.user) }
    if locale == nil { add(TimedAbsence.locale, times.locale) }
    if osVersion == nil { add(TimedAbsence.osVersion, times.osVersion) }
    if timeZone == nil { add(TimedAbsence.timeZone, times.timeZone) }
    if token == nil { add(TimedAbsence.token, times.tokenRemoval) }
    add(TimedAbsence.startTokens, times.startTokensRemoval)
    add(TimedAbsence.tags, times.tagsRemoval)
    add(TimedAbsence.increments, times.increments)
    return all
  }

  /// The two low bits of the number before an id.
  enum IDForm {
    static let text: UInt64 = 0
    static let lowerCaseUUID: UInt64 = 1
    static let upperCaseUUID: UInt64 = 2
  }

  /// The three low bits of the number before a tag's value; the other bits are its length, or the number itself.
  enum ValueForm {
    static let text: UInt64 = 0
    static let no: UInt64 = 1
    static let yes: UInt64 = 2
    static let integer: UInt64 = 3
    static let number: UInt64 = 4
    static let list: UInt64 = 5
  }

  /// The times of the fields, in the order in which these are written.
  func fieldTimes(_ absences: [(bit: UInt64, at: Int64)]) -> [Int64?] {
    var times: [Int64?] = []
    times.reserveCapacity(8 + startTokens.count + tags.count)
    if user != nil { times.append(self.times.user) }
    if let token { times.append(token.at) }
    for start in startTokens { times.append(start.token.at) }
    if locale != nil { times.append(self.times.locale) }
    if osVersion != nil { times.append(self.times.osVersion) }
    if timeZone != nil { times.append(self.times.timeZone) }
    for tag in tags { times.append(tag.at) }
    for absence in absences { times.append(absence.at) }
    for removal in removedTags { times.append(removal.at) }
    for removal in removedStartTokens { times.append(removal.at) }
    return times
  }

  /// - Returns: the bytes, and the words that they refer to by number.
  package func encoded(_ words: borrowing DeviceWords) -> (bytes: [UInt8], words: [UInt32: String]) {
    let absences = absences
    let times = DeviceRecordTimes(at: at, fields: fieldTimes(absences))
    var writer = DeviceRecordWriter()
    writer.bytes.reserveCapacity(320)
    let isLongOwned = user != nil && owners == [Owner(since: .min, user: user)]
    var version = DeviceRecord.version
    if !times.isOneTime { version |= DeviceRecord.timesFlag }
    if !owners.isEmpty { version |= isLongOwned ? DeviceRecord.longOwnedFlag : DeviceRecord.ownersFlag }
    writer.bytes.append(version)
    writer.append(fixed: UInt64(fingerprint), count: 4)
    writer.append(fields(absences))
    writer.append(id: id)
    writer.append(UInt64(bitPattern: times.common))
    if !times.isOneTime { writer.append(times) }
    if let user { writer.append(id: user) }
    if let token { writer.append(token.bytes) }
    if !startTokens.isEmpty {
      writer.append(UInt64(startTokens.count))
      for start in startTokens {
        writer.append(word: start.type, words)
        writer.append(start.token.bytes)
      }
    }
    if let locale { writer.append(word: locale, words) }
    if let osVersion {
      writer.append(UInt64(osVersion.major))
      writer.append(UInt64(osVersion.minor))
      writer.append(UInt64(osVersion.patch))
    }
    if let timeZone { writer.append(word: timeZone, words) }
    if !tags.isEmpty {
      writer.append(UInt64(tags.count))
      for tag in tags {
        writer.append(word: tag.name, words)
        writer.append(tag.value)
      }
    }
    if !goneTokens.isEmpty {
      writer.append(UInt64(goneTokens.count))
      for gone in goneTokens {
        writer.append(fixed: gone.fingerprint, count: 8)
        writer.append(signed: at &- gone.at)
      }
    }
    if !absences.isEmpty { writer.append(absences.reduce(0) { $0 | $1.bit }) }
    if !removedTags.isEmpty { writer.append(removedTags, words) }
    if !removedStartTokens.isEmpty { writer.append(removedStartTokens, words) }
    if tags.contains(where: { !$0.increments.isEmpty }) { writer.append(incrementsOf: tags, before: at) }
    if !owners.isEmpty, !isLongOwned { writer.append(owners, before: self.times.user ?? at) }
    return (writer.bytes, writer.words)
  }

  private func fields(_ absences: [(bit: UInt64, at: Int64)]) -> UInt64 {
    var fields: UInt64 = 0
    if user != nil { fields |= Field.user }
    if token != nil { fields |= Field.token }
    if !startTokens.isEmpty { fields |= Field.startTokens }
    if locale != nil { fields |= Field.locale }
    if osVersion != nil { fields |= Field.osVersion }
    if timeZone != nil { fields |= Field.timeZone }
    if !tags.isEmpty { fields |= Field.tags }
    if !goneTokens.isEmpty { fields |= Field.goneTokens }
    if tags.contains(where: { !$0.increments.isEmpty }) { fields |= Field.increments }
    if !absences.isEmpty { fields |= Field.absences }
    if !removedTags.isEmpty { fields |= Field.removedTags }
    if !removedStartTokens.isEmpty { fields |= Field.removedStartTokens }
    return fields
  }
}

private struct DeviceRecordWriter {
  var bytes: [UInt8] = []
  var words: [UInt32: String] = [:]

  mutating func append(_ number: UInt64) {
    var rest = number
    while rest >= 128 {
      bytes.append(UInt8(truncatingIfNeeded: rest) | 128)
      rest >>= 7
    }
    bytes.append(UInt8(rest))
  }

  mutating func append(signed number: Int64) { append(UInt64(bitPattern: number << 1 ^ number >> 63)) }

  mutating func append(fixed number: UInt64, count: Int) {
    for index in 0..<count { bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(index * 8))) }
  }

  mutating func append(text: String) {
    append(UInt64(text.utf8.count))
    bytes.append(contentsOf: text.utf8)
  }

  mutating func append(id: String) {
    if let value = UUIDValue(id.utf8.span) {
      append(DeviceRecord.IDForm.lowerCaseUUID)
      append(uuid: value)
    } else if let value = UUIDValue(upperCase: id) {
      append(DeviceRecord.IDForm.upperCaseUUID)
      append(uuid: value)
    } else {
      append(UInt64(id.utf8.count) << 2 | DeviceRecord.IDForm.text)
      bytes.append(contentsOf: id.utf8)
    }
  }

  private mutating func append(uuid: UUIDValue) {
    append(fixed: uuid.high, count: 8)
    append(fixed: uuid.low, count: 8)
  }

  mutating func append(_ token: [UInt8]) {
    append(UInt64(token.count))
    bytes.append(contentsOf: token)
  }

  mutating func append(_ times: DeviceRecordTimes) {
    append(UInt64(times.others.count) << 2 | (times.none.isEmpty ? 0 : 2) | (times.isRecordOther ? 1 : 0))
    var last = times.common
    for other in times.others {
      append(signed: last &- other.time)
      append(places: other.places)
      last = other.time
    }
    if !times.none.isEmpty { append(places: times.none) }
  }

  private mutating func append(places: [Int]) {
    guard let end = places.last else { return append(0) }
    var last = -1
    for place in places {
      append(UInt64(place - last) << 1 | (place == end ? 0 : 1))
      last = place
    }
  }

  mutating func append(_ removals: [DeviceRecord.Removal], _ words: borrowing DeviceWords) {
    append(UInt64(removals.count))
    for removal in removals { append(word: removal.name, words) }
  }

  mutating func append(incrementsOf tags: [DeviceRecord.Tag], before at: Int64) {
    append(UInt64(tags.reduce(0) { $0 + $1.increments.count }))
    for (index, tag) in tags.enumerated() {
      for increment in tag.increments {
        append(UInt64(index))
        append(fixed: UInt64(increment.fingerprint), count: 4)
        append(signed: at &- increment.at)
        append(.number(increment.addend))
      }
    }
  }

  mutating func append(_ owners: [DeviceRecord.Owner], before at: Int64) {
    let isLongOwned = owners.first?.since == .min
    append(UInt64(owners.count) << 1 | (isLongOwned ? 1 : 0))
    var last = at
    for index in owners.indices.reversed() {
      if index < owners.count - 1 { append(fixed: owners[index].user, count: 8) }
      if index == 0, isLongOwned { break }
      append(signed: last &- owners[index].since)
      last = owners[index].since
    }
  }

  /// The word's number in four bytes, the highest first, with the highest bit set. Or the word after its length: one
  /// byte below 128, or a zero byte and a varint.
  mutating func append(word: String, _ table: borrowing DeviceWords) {
    // Of two words of this record with one number, the second is written out.
    guard let number = table.number(of: word), words[number, default: word].hasBytes(of: word) else {
      if word.utf8.count > 127 { bytes.append(0) }
      return append(text: word)
    }
    words[number] = word
    for shift in stride(from: UInt32(24), through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: (number | 1 << 31) >> shift))
    }
  }

  mutating func append(_ value: TagValue) {
    switch value {
    case .text(let text):
      append(UInt64(text.utf8.count) << 3 | DeviceRecord.ValueForm.text)
      bytes.append(contentsOf: text.utf8)
    case .flag(let flag):
      append(flag ? DeviceRecord.ValueForm.yes : DeviceRecord.ValueForm.no)
    case .number(let number):
      // 2^53 with its sign takes 54 bits; three more fit.
      if let integer = Int64(exactly: number), integer.magnitude <= DeviceLimits.exactIntegerMaximum.magnitude {
        append(UInt64(bitPattern: integer << 1 ^ integer >> 63) << 3 | DeviceRecord.ValueForm.integer)
      } else {
        append(DeviceRecord.ValueForm.number)
        append(fixed: number.bitPattern, count: 8)
      }
    case .list(let members):
      append(UInt64(members.count) << 3 | DeviceRecord.ValueForm.list)
      for member in members { append(text: member) }
    }
  }
}

extension UUIDValue {
  /// Canonical text in upper case, as Apple's devices write it.
  fileprivate init?(upperCase text: String) {
    guard !text.utf8.contains(where: { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 }) else { return nil }
    self.init(anyCase: text.utf8.span)
  }
}
