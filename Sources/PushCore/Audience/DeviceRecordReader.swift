extension DeviceRecord {
  /// Decodes the bytes of `encoded`.
  /// - Returns: the record, and the numbers of its words.
  package static func decoded(
    _ bytes: [UInt8], _ words: borrowing DeviceWords
  ) throws(DeviceRecordError) -> (record: DeviceRecord, words: Set<UInt32>) {
    var reader = DeviceRecordReader(bytes: bytes)
    let version = try reader.byte()
    guard version == DeviceRecord.version || version == DeviceRecord.versionWithoutFingerprint else {
      throw .unknownVersion(version)
    }
    let fingerprint = version == DeviceRecord.version ? UInt32(truncatingIfNeeded: try reader.fixed(4)) : 0
    var record = try reader.record(words)
    record.fingerprint = fingerprint
    guard reader.position == bytes.count else { throw .broken }
    guard reader.unknownWords.isEmpty else { throw .unknownWords(reader.unknownWords.sorted()) }
    return (record, reader.words)
  }
}

/// Reads a record's bytes. Any bytes give a record or an error.
private struct DeviceRecordReader {
  let bytes: [UInt8]
  var position = 0
  var words: Set<UInt32> = []
  var unknownWords: Set<UInt32> = []

  init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  mutating func record(_ table: borrowing DeviceWords) throws(DeviceRecordError) -> DeviceRecord {
    typealias Field = DeviceRecord.Field
    let fields = try number()
    guard fields <= Field.all else { throw .broken }
    let id = try self.id()
    let at = Int64(bitPattern: try number())
    var record = DeviceRecord(id: id, at: at)
    if fields & Field.user != 0 { record.user = try self.id() }
    if fields & Field.token != 0 { record.token = try token(before: at) }
    if fields & Field.startTokens != 0 {
      for _ in 0..<(try count()) {
        let type = try word(table)
        record.startTokens.append(DeviceRecord.StartToken(type: type, token: try token(before: at)))
      }
    }
    if fields & Field.locale != 0 { record.locale = try word(table) }
    if fields & Field.osVersion != 0 {
      let major = try small()
      let minor = try small()
      record.osVersion = OSVersion(major: major, minor: minor, patch: try small())
    }
    if fields & Field.timeZone != 0 { record.timeZone = try word(table) }
    if fields & Field.tags != 0 {
      for _ in 0..<(try count()) {
        let name = try word(table)
        record.tags.append(DeviceRecord.Tag(name: name, value: try value()))
      }
    }
    if fields & Field.goneTokens != 0 {
      for _ in 0..<(try count()) {
        let fingerprint = try fixed(8)
        record.goneTokens.append(
          DeviceRecord.GoneToken(fingerprint: fingerprint, at: at &- (try signed())))
      }
    }
    if fields & Field.moreIncrements != 0 {
      for _ in 0..<(try count()) { record.incrementFingerprints.append(UInt32(truncatingIfNeeded: try fixed(4))) }
    }
    if fields & Field.increment != 0 { record.incrementFingerprints.append(UInt32(truncatingIfNeeded: try fixed(4))) }
    return record
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

  mutating func fixed(_ count: Int) throws(DeviceRecordError) -> UInt64 {
    var number: UInt64 = 0
    for index in 0..<count { number |= UInt64(try byte()) << UInt64(index * 8) }
    return number
  }

  private mutating func small() throws(DeviceRecordError) -> UInt16 {
    guard let number = UInt16(exactly: try number()) else { throw .broken }
    return number
  }

  /// The number of elements that follow, each at least one byte.
  private mutating func count() throws(DeviceRecordError) -> Int {
    let number = try number()
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

  private mutating func token(before at: Int64) throws(DeviceRecordError) -> DeviceRecord.Token {
    let token = Array(try run(try number()))
    return DeviceRecord.Token(bytes: token, at: at &- (try signed()))
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
