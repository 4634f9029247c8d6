extension DeviceRecord {
  /// Decodes the bytes of `encoded`.
  /// - Returns: the record, and the numbers of its words.
  package static func decoded(
    _ bytes: [UInt8], _ words: borrowing DeviceWords
  ) throws(DeviceRecordError) -> (record: DeviceRecord, words: Set<UInt32>) {
    var reader = DeviceRecordReader(bytes: bytes)
    let first = try reader.byte()
    reader.version = first & 31
    reader.hasOtherTimes = first & DeviceRecord.timesFlag != 0
    reader.owners = first & (DeviceRecord.longOwnedFlag | DeviceRecord.ownersFlag)
    guard DeviceRecord.versionWithoutTimes...DeviceRecord.version ~= reader.version else {
      throw .unknownVersion(first & ~DeviceRecord.timesFlag)
    }
    guard !reader.hasOtherTimes || reader.version >= DeviceRecord.versionWithoutOwners else { throw .broken }
    guard reader.owners == 0 || reader.version == DeviceRecord.version else { throw .broken }
    let record = try reader.record(words)
    guard reader.position == bytes.count else { throw .broken }
    guard reader.unknownWords.isEmpty else { throw .unknownWords(reader.unknownWords.sorted()) }
    return (record, reader.words)
  }
}

/// Reads a record's bytes. Any bytes give a record or an error.
private struct DeviceRecordReader {
  let bytes: [UInt8]
  var version = DeviceRecord.version
  /// Whether not all fields have the record's time.
  var hasOtherTimes = false
  /// The version's flags that tell of owners.
  var owners: UInt8 = 0
  /// The record's time.
  private var at: Int64 = 0
  /// That of the fields without an exception.
  private var common: Int64 = 0
  /// Ascending by place.
  private var exceptions: [(place: Int, time: Int64?)] = []
  private var exceptionsRead = 0
  /// Of the next field with a time.
  private var place = 0
  /// Version 2: the times, by the number that follows each field. Empty: all fields have the record's.
  private var numberedTimes: [Int64?] = []
  var position = 0
  var words: Set<UInt32> = []
  var unknownWords: Set<UInt32> = []

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  mutating func record(_ words: borrowing DeviceWords) throws(DeviceRecordError) -> DeviceRecord {
    typealias Field = DeviceRecord.Field
    let isVersion1 = version == DeviceRecord.versionWithoutTimes
    let fingerprint = isVersion1 ? 0 : UInt32(truncatingIfNeeded: try fixed(4))
    let fields = try number()
    let known =
      switch version {
      case DeviceRecord.versionWithoutTimes: Field.allOfVersion1
      case DeviceRecord.versionWithNumberedTimes: Field.allOfVersion2
      default: Field.all
      }
    guard fields & ~known == 0 else { throw .broken }
    let id = try self.id()
    common = Int64(bitPattern: try number())
    at = common
    if hasOtherTimes { try readTimes() }
    if fields & Field.times != 0 { try readNumberedTimes() }
    var record = DeviceRecord(id: id, at: at)
    record.fingerprint = fingerprint
    if fields & Field.user != 0 {
      record.user = try self.id()
      record.times.user = try time()
    }
    if fields & Field.token != 0 { record.token = try token() }
    if fields & Field.startTokens != 0 {
      for _ in 0..<(try count()) {
        let type = try word(words)
        record.startTokens.append(DeviceRecord.StartToken(type: type, token: try token()))
      }
    }
    if fields & Field.locale != 0 {
      record.locale = try word(words)
      record.times.locale = try time()
    }
    if fields & Field.osVersion != 0 {
      let major = try small()
      let minor = try small()
      record.osVersion = OSVersion(major: major, minor: minor, patch: try small())
      record.times.osVersion = try time()
    }
    if fields & Field.timeZone != 0 {
      record.timeZone = try word(words)
      record.times.timeZone = try time()
    }
    if fields & Field.tags != 0 {
      for _ in 0..<(try count()) {
        let name = try word(words)
        let value = try value()
        record.tags.append(DeviceRecord.Tag(name: name, value: value, at: try time()))
      }
    }
    if fields & Field.goneTokens != 0 {
      for _ in 0..<(try count()) {
        let fingerprint = try fixed(8)
        record.goneTokens.append(
          DeviceRecord.GoneToken(fingerprint: fingerprint, at: at &- (try signed())))
      }
    }
    if isVersion1 {
      try skipIncrementsOfVersion1(fields, &record)
      try readOwners(&record)
      return record
    }
    if fields & Field.absences != 0 { try readAbsences(&record.times) }
    if fields & Field.removedTags != 0 { record.removedTags = try removals(words) }
    if fields & Field.removedStartTokens != 0 { record.removedStartTokens = try removals(words) }
    if fields & Field.increments != 0 { try readIncrements(&record.tags) }
    guard exceptionsRead == exceptions.count else { throw .broken }
    try readOwners(&record)
    return record
  }

  /// Version 1 tells no tag, so none up to then counts any more.
  private mutating func skipIncrementsOfVersion1(
    _ fields: UInt64, _ record: inout DeviceRecord
  ) throws(DeviceRecordError) {
    if fields & DeviceRecord.Field.moreIncrements != 0 { for _ in 0..<(try count()) { _ = try fixed(4) } }
    guard fields & DeviceRecord.Field.increments != 0 else { return }
    _ = try fixed(4)
    record.times.increments = at
  }

  /// Of older versions, which tell nobody: the user has had it for long.
  private mutating func readOwners(_ record: inout DeviceRecord) throws(DeviceRecordError) {
    typealias Owner = DeviceRecord.Owner
    if version != DeviceRecord.version || owners == DeviceRecord.longOwnedFlag {
      if let user = record.user { record.owners = [Owner(since: .min, user: user)] }
      return
    }
    if owners == 0 { return }
    guard owners == DeviceRecord.ownersFlag else { throw .broken }
    let head = try number()
    let count = try count(head >> 1)
    var last = record.times.user ?? at
    for index in (0..<count).reversed() {
      let user = index < count - 1 ? try fixed(8) : Owner(since: 0, user: record.user).user
      if index == 0, head & 1 != 0 {
        last = .min
      } else {
        last = last &- (try signed())
      }
      record.owners.insert(Owner(since: last, hash: user), at: 0)
    }
  }

  private mutating func readTimes() throws(DeviceRecordError) {
    let head = try number()
    var last = common
    for index in 0..<(try count(head >> 2)) {
      last = last &- (try signed())
      if index == 0, head & 1 != 0 { at = last }
      try readPlaces(of: last)
    }
    if head & 2 != 0 { try readPlaces(of: nil) }
    exceptions.sort { $0.place < $1.place }
  }

  private mutating func readPlaces(of time: Int64?) throws(DeviceRecordError) {
    var place = -1
    while true {
      let number = try number()
      if number == 0, place < 0 { return }
      // Each field has at least a bit.
      guard number >> 1 <= UInt64(bytes.count * 8) else { throw .broken }
      place += Int(number >> 1)
      exceptions.append((place, time))
      if number & 1 == 0 { return }
    }
  }

  private mutating func readNumberedTimes() throws(DeviceRecordError) {
    var last = at
    numberedTimes = [at]
    for _ in 0..<(try count()) {
      last = last &- (try signed())
      numberedTimes.append(last)
    }
    numberedTimes.append(nil)
  }

  /// The time of the next field.
  private mutating func time() throws(DeviceRecordError) -> Int64? {
    guard numberedTimes.isEmpty else {
      guard let number = Int(exactly: try number()), numberedTimes.indices.contains(number) else { throw .broken }
      return numberedTimes[number]
    }
    defer { place += 1 }
    guard exceptionsRead < exceptions.count, exceptions[exceptionsRead].place == place else { return common }
    exceptionsRead += 1
    return exceptions[exceptionsRead - 1].time
  }

  private mutating func sureTime() throws(DeviceRecordError) -> Int64 {
    guard let time = try time() else { throw .broken }
    return time
  }

  private mutating func readAbsences(_ times: inout DeviceRecord.Times) throws(DeviceRecordError) {
    typealias Absence = DeviceRecord.TimedAbsence
    let bits = try number()
    guard bits & ~Absence.all == 0 else { throw .broken }
    if bits & Absence.user != 0 { times.user = try sureTime() }
    if bits & Absence.locale != 0 { times.locale = try sureTime() }
    if bits & Absence.osVersion != 0 { times.osVersion = try sureTime() }
    if bits & Absence.timeZone != 0 { times.timeZone = try sureTime() }
    if bits & Absence.token != 0 { times.tokenRemoval = try sureTime() }
    if bits & Absence.startTokens != 0 { times.startTokensRemoval = try sureTime() }
    if bits & Absence.tags != 0 { times.tagsRemoval = try sureTime() }
    if bits & Absence.increments != 0 { times.increments = try sureTime() }
  }

  private mutating func removals(
    _ words: borrowing DeviceWords
  ) throws(DeviceRecordError) -> [DeviceRecord.Removal] {
    var removals: [DeviceRecord.Removal] = []
    for _ in 0..<(try count()) {
      let name = try word(words)
      removals.append(DeviceRecord.Removal(name: name, at: try sureTime()))
    }
    return removals
  }

  private mutating func readIncrements(_ tags: inout [DeviceRecord.Tag]) throws(DeviceRecordError) {
    for _ in 0..<(try count()) {
      guard let index = Int(exactly: try number()), tags.indices.contains(index) else { throw .broken }
      let fingerprint = UInt32(truncatingIfNeeded: try fixed(4))
      let time = at &- (try signed())
      guard case .number(let addend) = try value() else { throw .broken }
      tags[index].increments.append(DeviceRecord.Increment(at: time, addend: addend, fingerprint: fingerprint))
    }
  }

  // MARK: - Parts

  mutating func byte() throws(DeviceRecordError) -> UInt8 {
    guard position < bytes.count else { throw .broken }
    defer { position += 1 }
    return bytes[position]
  }

  private mutating func number() throws(DeviceRecordError) -> UInt64 {
    var number: UInt64 = 0
    var shift: UInt64 = 0
    while shift < 64 {
      let byte = try byte()
      // The tenth byte has room for one bit only.
      if shift == 63, byte > 1 { throw .broken }
      number |= UInt64(byte & 127) << shift
      if byte < 128 { return number }
      shift += 7
    }
    throw .broken
  }

  private mutating func signed() throws(DeviceRecordError) -> Int64 {
    let number = try number()
    return Int64(bitPattern: number >> 1) ^ -Int64(number & 1)
  }

  private mutating func fixed(_ count: Int) throws(DeviceRecordError) -> UInt64 {
    var number: UInt64 = 0
    for index in 0..<count { number |= UInt64(try byte()) << UInt64(index * 8) }
    return number
  }

  private mutating func small() throws(DeviceRecordError) -> UInt16 {
    guard let number = UInt16(exactly: try number()) else { throw .broken }
    return number
  }

  /// The number of elements that follow, each at least one byte.
  private mutating func count() throws(DeviceRecordError) -> Int { try count(try number()) }

  private func count(_ number: UInt64) throws(DeviceRecordError) -> Int {
    guard number <= UInt64(bytes.count - position) else { throw .broken }
    return Int(number)
  }

  private mutating func run(_ count: UInt64) throws(DeviceRecordError) -> ArraySlice<UInt8> {
    guard count <= UInt64(bytes.count - position) else { throw .broken }
    defer { position += Int(count) }
    return bytes[position..<position + Int(count)]
  }

  private mutating func text(_ count: UInt64) throws(DeviceRecordError) -> String {
    guard let text = String(validating: try run(count), as: UTF8.self) else { throw .broken }
    return text
  }

  private mutating func id() throws(DeviceRecordError) -> String {
    let head = try number()
    switch head & 3 {
    case DeviceRecord.IDForm.text: return try text(head >> 2)
    case DeviceRecord.IDForm.lowerCaseUUID: return try uuid().text
    case DeviceRecord.IDForm.upperCaseUUID:
      let upper = try uuid().text.utf8.map { UInt8(ascii: "a")...UInt8(ascii: "z") ~= $0 ? $0 & 0xDF : $0 }
      return String(decoding: upper, as: UTF8.self)
    default: throw .broken
    }
  }

  private mutating func uuid() throws(DeviceRecordError) -> UUIDValue {
    let high = try fixed(8)
    return UUIDValue(high: high, low: try fixed(8))
  }

  private mutating func token() throws(DeviceRecordError) -> DeviceRecord.Token {
    let token = Array(try run(try number()))
    let isVersion1 = version == DeviceRecord.versionWithoutTimes
    return DeviceRecord.Token(bytes: token, at: isVersion1 ? at &- (try signed()) : try sureTime())
  }

  private mutating func word(_ table: borrowing DeviceWords) throws(DeviceRecordError) -> String {
    let first = try byte()
    if first == 0 { return try text(try number()) }
    if first < 128 { return try text(UInt64(first)) }
    var number = UInt32(first & 127)
    for _ in 0..<3 { number = number << 8 | UInt32(try byte()) }
    words.insert(number)
    guard let word = table.word(of: number) else {
      unknownWords.insert(number)
      return ""
    }
    return word
  }

  private mutating func value() throws(DeviceRecordError) -> TagValue {
    let head = try number()
    let rest = head >> 3
    switch head & 7 {
    case DeviceRecord.ValueForm.text: return .text(try text(rest))
    case DeviceRecord.ValueForm.no: return .flag(false)
    case DeviceRecord.ValueForm.yes: return .flag(true)
    case DeviceRecord.ValueForm.integer: return .number(Double(Int64(bitPattern: rest >> 1) ^ -Int64(rest & 1)))
    case DeviceRecord.ValueForm.number:
      let number = Double(bitPattern: try fixed(8))
      guard number.isFinite else { throw .broken }
      return .number(number)
    case DeviceRecord.ValueForm.list:
      guard rest <= UInt64(bytes.count - position) else { throw .broken }
      var members: [String] = []
      for _ in 0..<rest { members.append(try text(try number())) }
      return .list(members)
    default: throw .broken
    }
  }
}
