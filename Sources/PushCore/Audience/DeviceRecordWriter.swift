/// The encoding of a record: about 200 bytes for a device with two tokens, a user and eight tags.
///
/// A version, the fingerprint in four bytes, the lowest first, the fields that are present (`Field`), then the fields in
/// this order. A record of version 1 has no fingerprint. A number is a varint: seven
/// bits a byte, the lowest first, 128 set if more follow. A signed number has its sign in the lowest bit. Other times
/// are stored as the record's time minus theirs. An id is 16 bytes if it is a UUID, else text after its length.
extension DeviceRecord {
  package static let version: UInt8 = 2
  static let versionWithoutFingerprint: UInt8 = 1

  /// Bits of the second byte (and a third where the value is 128 or more).
  enum Field {
    static let user: UInt64 = 1
    static let token: UInt64 = 2
    static let startTokens: UInt64 = 4
    static let locale: UInt64 = 8
    static let osVersion: UInt64 = 16
    static let timeZone: UInt64 = 32
    static let tags: UInt64 = 64
    static let goneTokens: UInt64 = 128
    static let increment: UInt64 = 256
    /// Before the last one: how many, and each.
    static let moreIncrements: UInt64 = 512
    static let all: UInt64 = 1023
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

  /// - Returns: the bytes, and the words that they refer to by number.
  package func encoded(_ words: borrowing DeviceWords) -> (bytes: [UInt8], words: [UInt32: String]) {
    var writer = DeviceRecordWriter()
    writer.bytes.reserveCapacity(320)
    writer.bytes.append(DeviceRecord.version)
    writer.append(fixed: UInt64(fingerprint), count: 4)
    writer.append(fields)
    writer.append(id: id)
    writer.append(UInt64(bitPattern: at))
    if let user { writer.append(id: user) }
    if let token { writer.append(token, before: at) }
    if !startTokens.isEmpty {
      writer.append(UInt64(startTokens.count))
      for start in startTokens {
        writer.append(word: start.type, words)
        writer.append(start.token, before: at)
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
    if incrementFingerprints.count > 1 { writer.append(UInt64(incrementFingerprints.count - 1)) }
    for fingerprint in incrementFingerprints { writer.append(fixed: UInt64(fingerprint), count: 4) }
    return (writer.bytes, writer.words)
  }

  private var fields: UInt64 {
    var fields: UInt64 = 0
    if user != nil { fields |= Field.user }
    if token != nil { fields |= Field.token }
    if !startTokens.isEmpty { fields |= Field.startTokens }
    if locale != nil { fields |= Field.locale }
    if osVersion != nil { fields |= Field.osVersion }
    if timeZone != nil { fields |= Field.timeZone }
    if !tags.isEmpty { fields |= Field.tags }
    if !goneTokens.isEmpty { fields |= Field.goneTokens }
    if !incrementFingerprints.isEmpty { fields |= Field.increment }
    if incrementFingerprints.count > 1 { fields |= Field.moreIncrements }
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

  mutating func append(_ token: DeviceRecord.Token, before at: Int64) {
    append(UInt64(token.bytes.count))
    bytes.append(contentsOf: token.bytes)
    append(signed: at &- token.at)
  }

  /// The word's number in four bytes, the highest first, with the highest bit set. Or the word after its length: one
  /// byte below 128, or a zero byte and a varint.
  mutating func append(word: String, _ table: borrowing DeviceWords) {
    // Of two words of this record with one number, the second is written out.
    guard let number = table.number(of: word), words[number, default: word] == word else {
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
    guard text.utf8.count == UUIDValue.textCount else { return nil }
    var lowered: [UInt8] = []
    for byte in text.utf8 {
      if UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte { return nil }
      lowered.append(UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte)
    }
    self.init(lowered.span)
  }
}
