import PushCore
import TestSupport
import Testing

/// The bytes of a device's record.
@Suite struct DeviceRecordTests {
  private static var example: DeviceRecord {
    var record = DeviceRecord(id: "6E1F0C52-8A0B-4B5E-9E4C-0C5A9F3B7D21", at: 1_796_000_000_000)
    record.fingerprint = 0x8765_4321
    record.user = "user-1234567"
    record.times.user = record.at
    record.times.locale = record.at
    record.times.osVersion = record.at
    record.times.timeZone = record.at
    record.token = .init(bytes: Array(0..<32), at: 1_796_000_000_000)
    record.startTokens = [.init(type: "RideAttributes", token: .init(bytes: Array(0..<80), at: record.at))]
    record.locale = "en-GB"
    record.osVersion = OSVersion(major: 18, minor: 1)
    record.timeZone = "Europe/Rome"
    let tags: [(String, TagValue)] = [
      ("city", .text("Rome")), ("credit", .number(-1.25)), ("language", .text("it")), ("level", .number(7)),
      ("plan", .text("gold")), ("since", .number(1_790_000_000)), ("teams", .list(["a", "b"])), ("vip", .flag(true)),
    ]
    record.tags = tags.map { DeviceRecord.Tag(name: $0, value: $1, at: record.at) }
    return record
  }

  /// All words of a table.
  private func table(_ words: [UInt32: String]) -> DeviceWords {
    var table = DeviceWords()
    for (number, word) in words { table.learned(number, word) }
    return table
  }

  @Test func aRecordIsWhatWasWrittenAndSmall() throws {
    let (bytes, words) = DeviceRecordTests.example.encoded(DeviceWords())
    #expect(bytes.count == 239)
    #expect(
      Set(words.values) == [
        "RideAttributes", "en-GB", "Europe/Rome", "city", "credit", "language", "level", "plan", "since", "teams",
      ])
    let read = try DeviceRecord.decoded(bytes, table(words))
    #expect(read.record == DeviceRecordTests.example && read.words == Set(words.keys))
    #expect(read.record.startToken(for: "RideAttributes")?.bytes.count == 80 && read.record.startToken(for: "X") == nil)
  }

  @Test func unknownWordsAreNamedAllAtOnce() throws {
    let (bytes, words) = DeviceRecordTests.example.encoded(DeviceWords())
    #expect(throws: DeviceRecordError.unknownWords(words.keys.sorted())) {
      try DeviceRecord.decoded(bytes, DeviceWords())
    }
  }

  /// A word whose number another word has, and a new one of a full table, stand in the record themselves.
  @Test func refusedWordsAreWrittenOut() throws {
    var words = DeviceWords()
    words.clashed("Europe/Rome")
    words.learned(1, "anything")
    let (bytes, numbers) = DeviceRecordTests.example.encoded(words)
    #expect(!numbers.values.contains("Europe/Rome") && numbers.count == 9)
    #expect(try DeviceRecord.decoded(bytes, table(numbers)).record == DeviceRecordTests.example)
    words.filled()
    let (longer, none) = DeviceRecordTests.example.encoded(words)
    #expect(none.isEmpty && longer.count > bytes.count)
    #expect(try DeviceRecord.decoded(longer, DeviceWords()).record == DeviceRecordTests.example)
    for count in [127, 128] {
      var record = DeviceRecordTests.example
      record.startTokens[0].type = String(repeating: "x", count: count)
      #expect(try DeviceRecord.decoded(record.encoded(words).bytes, DeviceWords()).record == record)
    }
  }

  /// Two words of one record with the same number: one of them stands in the record itself.
  @Test func wordsWithOneNumberAreBothKept() throws {
    var record = DeviceRecordTests.example
    record.tags = [
      .init(name: "tag163405", value: .text("y"), at: nil), .init(name: "tag55925", value: .text("x"), at: 5),
    ]
    #expect(DeviceWords().number(of: "tag163405") == DeviceWords().number(of: "tag55925"))
    let (bytes, words) = record.encoded(DeviceWords())
    #expect(try DeviceRecord.decoded(bytes, table(words)).record == record)
  }

  /// Scripts read the fingerprint without decoding the record.
  @Test func fingerprint_isAtBytesOneToFour() {
    let (bytes, _) = DeviceRecordTests.example.encoded(DeviceWords())
    #expect(bytes.prefix(5) == [4, 0x21, 0x43, 0x65, 0x87])
    var record = DeviceRecordTests.example
    record.at += 1
    #expect(record.encoded(DeviceWords()).bytes.prefix(5) == [132, 0x21, 0x43, 0x65, 0x87])
  }

  /// Of three times and none: the number of its time followed each field.
  @Test func recordOfVersionTwo_keepsItsTimes() throws {
    let bytes: [UInt8] = [
      0x02, 0x01, 0x02, 0x03, 0x04, 0xD7, 0x7A, 0x04, 0x64, 0x88, 0xF7, 0xC4, 0xCF, 0xA2, 0x34, 0x02, 0xD0, 0x0F, 0xC0,
      0x3E, 0x04, 0x75, 0x02, 0x02, 0x09, 0x08, 0x02, 0x01, 0x01, 0x2A, 0x01, 0x07, 0x01, 0x12, 0x01, 0x00, 0x02, 0x02,
      0x01, 0x6E, 0x73, 0x03, 0x01, 0x74, 0x08, 0x78, 0x00, 0x82, 0x01, 0x00, 0x01, 0x01, 0x03, 0x6F, 0x6C, 0x64, 0x00,
      0x01, 0x01, 0x58, 0x01, 0x01, 0x00, 0x05, 0x00, 0x00, 0x00, 0xE8, 0x07, 0x23,
    ]
    let first: Int64 = 1_796_000_000_000
    var expected = DeviceRecord(id: "d", at: first + 5_000)
    expected.fingerprint = 0x0403_0201
    expected.user = "u"
    expected.times.user = first
    expected.owners = [.init(since: .min, user: "u")]
    expected.token = .init(bytes: [9, 8], at: first)
    expected.startTokens = [.init(type: "*", token: .init(bytes: [7], at: first + 4_000))]
    expected.osVersion = OSVersion(major: 18, minor: 1)
    expected.times.osVersion = first
    expected.times.locale = first + 5_000
    expected.times.increments = first + 4_000
    expected.tags = [
      .init(
        name: "n", value: .number(7), at: nil, increments: [.init(at: first + 4_500, addend: 2, fingerprint: 5)]),
      .init(name: "t", value: .text("x"), at: first + 5_000),
    ]
    expected.removedTags = [.init(name: "old", at: first + 5_000)]
    expected.removedStartTokens = [.init(name: "X", at: first + 4_000)]
    #expect(try DeviceRecord.decoded(bytes, DeviceWords()).record == expected)
    let (now, words) = expected.encoded(DeviceWords())
    #expect(now.count == 67)
    #expect(try DeviceRecord.decoded(now, table(words)).record == expected)
  }

  /// It has a user, a token that is 1 ms older, a tag, and two increments.
  @Test func recordOfVersionOne_hasNoFingerprintAndOneTime() throws {
    let bytes: [UInt8] = [1, 0xC3, 6, 4, 0x64, 0x88, 0x27, 4, 0x75, 2, 9, 8, 2, 1, 1, 0x6E, 7 << 4 | 3]
    let increments: [UInt8] = [1, 1, 0, 0, 0, 2, 0, 0, 0]
    var expected = DeviceRecord(id: "d", at: 5_000)
    expected.user = "u"
    expected.times.user = 5_000
    expected.owners = [.init(since: .min, user: "u")]
    expected.token = .init(bytes: [9, 8], at: 4_999)
    expected.tags = [.init(name: "n", value: .number(7), at: 5_000)]
    expected.times.increments = 5_000
    #expect(try DeviceRecord.decoded(bytes + increments, DeviceWords()).record == expected)
  }

  /// A tag a day later takes the difference, its place and the number of times: other fields keep the common time.
  @Test func newerTag_takesSixBytes() throws {
    let full = DeviceRecordTests.example.encoded(DeviceWords()).bytes.count
    var record = DeviceRecordTests.example
    record.at += 86_400_000
    record.tags[3].at = record.at
    let (bytes, words) = record.encoded(DeviceWords())
    #expect(bytes.count == full + 6)
    #expect(try DeviceRecord.decoded(bytes, table(words)).record == record)
    // Another one of the same registration, and one of a registration a minute before.
    record.tags[4].at = record.at
    record.tags[6].at = record.at - 60_000
    let (more, _) = record.encoded(DeviceWords())
    #expect(more.count == full + 11)
    #expect(try DeviceRecord.decoded(more, table(words)).record == record)
    // Most fields are the newest.
    record.tags[6].at = DeviceRecordTests.example.at
    record.token?.at = record.at
    for index in record.tags.indices { record.tags[index].at = record.at }
    let (most, _) = record.encoded(DeviceWords())
    #expect(most.count == full + 10)
    #expect(try DeviceRecord.decoded(most, table(words)).record == record)
  }

  /// What partial registrations a second apart, removals and increments add.
  @Test func timesOfFields_takeFewBytes() throws {
    let (full, _) = DeviceRecordTests.example.encoded(DeviceWords())
    var record = DeviceRecordTests.example
    record.at += 1_000
    record.startTokens[0].token.at = record.at
    #expect(record.encoded(DeviceWords()).bytes.count - full.count == 4)
    record.tags[3].increments = [.init(at: record.at - 500, addend: 1, fingerprint: 9)]
    record.removedTags = [.init(name: "trial", at: record.at - 700)]
    record.removedStartTokens = [.init(name: "*", at: record.at)]
    record.times.tagsRemoval = record.at - 60_000
    record.times.increments = record.at - 3_600_000
    record.tags[7].at = nil
    let (bytes, words) = record.encoded(DeviceWords())
    #expect(bytes.count - full.count == 38)
    #expect(try DeviceRecord.decoded(bytes, table(words)).record == record)
  }

  /// A place that no field has, or one that comes twice.
  @Test func placesThatFitNoField_areRefused() throws {
    // A device "d" with the tags "a" and "b", whose time is 1 ms older for the places that stand here.
    func bytes(_ places: [UInt8]) -> [UInt8] {
      [131, 1, 0, 0, 0, 0x40, 4, 0x64, 0x88, 0x27, 1 << 2, 2] + places + [2, 1, 0x61, 1, 1, 0x62, 1]
    }
    #expect(try DeviceRecord.decoded(bytes([3, 2]), DeviceWords()).record.tags.map(\.at) == [4_999, 4_999])
    #expect(try DeviceRecord.decoded(bytes([4]), DeviceWords()).record.tags.map(\.at) == [5_000, 4_999])
    for places: [UInt8] in [[6], [3, 0], [0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1]] {
      #expect(throws: DeviceRecordError.broken) { try DeviceRecord.decoded(bytes(places), DeviceWords()) }
    }
    // Only a field of the newest version has a place.
    #expect(throws: DeviceRecordError.broken) { try DeviceRecord.decoded([130] + bytes([4])[1...], DeviceWords()) }
  }

  /// Nothing if the user has had it since the registration, or for more than a day.
  @Test func owners_takeFewBytes() throws {
    let full = DeviceRecordTests.example.encoded(DeviceWords()).bytes.count
    var record = DeviceRecordTests.example
    func expectBytes(_ more: Int, _ owners: [DeviceRecord.Owner]) throws {
      record.owners = owners
      let (bytes, words) = record.encoded(DeviceWords())
      #expect(bytes.count - full == more)
      #expect(try DeviceRecord.decoded(bytes, table(words)).record == record)
    }
    let own = DeviceRecord.Owner(since: record.at - 60_000, user: record.user)
    try expectBytes(0, [.init(since: .min, user: record.user)])
    try expectBytes(4, [own])
    try expectBytes(14, [.init(since: record.at - 61_000, user: "other"), own])
    try expectBytes(12, [.init(since: .min, user: "other"), own])
    record.user = nil
    record.times.user = nil
    let (bytes, words) = record.encoded(DeviceWords())
    for flags in [96, 64] {
      #expect(throws: DeviceRecordError.self) {
        try DeviceRecord.decoded([4 | UInt8(flags)] + bytes[1...] + [1], table(words))
      }
    }
  }

  /// Builds before did not tell since when the user has had it: for ever.
  @Test func recordOfVersionThree_isItsUsersForLong() throws {
    var record = DeviceRecordTests.example
    let (bytes, words) = record.encoded(DeviceWords())
    record.owners = [.init(since: .min, user: record.user)]
    #expect(try DeviceRecord.decoded([3] + bytes[1...], table(words)).record == record)
  }

  @Test func anotherVersionIsNotGuessedAt() {
    var (bytes, _) = DeviceRecordTests.example.encoded(DeviceWords())
    bytes[0] = 5
    #expect(throws: DeviceRecordError.unknownVersion(5)) { try DeviceRecord.decoded(bytes, DeviceWords()) }
    #expect(throws: DeviceRecordError.broken) { try DeviceRecord.decoded([], DeviceWords()) }
  }

  @Test func everyRecordComesBack() throws {
    var source = RandomRegistrations(seed: 1)
    for round in 0..<3_000 {
      var record: DeviceRecord?
      for _ in 0..<3 {
        let at = source.time()
        let registration = source.registration()
        let fingerprint = UInt32.random(in: 1 ... .max, using: &source.random)
        if case .changed(let next, _) = DeviceChange.registering(
          registration, at: at, now: .max, onto: record, fingerprint: fingerprint)
        {
          record = DeviceChange.losing(source.token(), at: at, now: .max, from: next) ?? next
        }
      }
      guard var record else { continue }
      record.id =
        ["hwid", "6e1f0c52-8a0b-4b5e-9e4c-0c5a9f3b7d21", "6E1F0C52-8A0B-4B5E-9E4C-0C5A9F3B7D21", "é"][round % 4]
      let (bytes, words) = record.encoded(DeviceWords())
      #expect(try DeviceRecord.decoded(bytes, table(words)).record == record, "round \(round)")
    }
  }

  /// Whatever bytes lie in Redis, reading them ends in a record or an error.
  @Test func survivesDamage() {
    let (original, words) = DeviceRecordTests.example.encoded(DeviceWords())
    let table = table(words)
    var random = SeededRandom(seed: 2)
    var readable = 0
    for _ in 0..<60_000 {
      var bytes = original
      for _ in 0...Int.random(in: 0..<3, using: &random) {
        let place = Int.random(in: 0..<max(1, bytes.count), using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0 where place < bytes.count: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1 where place < bytes.count: bytes[place] ^= 1 << UInt8.random(in: 0..<8, using: &random)
        case 2: bytes.removeLast(min(bytes.count, Int.random(in: 1..<60, using: &random)))
        default: bytes.insert(0xFF, at: min(place, bytes.count))
        }
      }
      do {
        let record = try DeviceRecord.decoded(bytes, table).record
        readable += 1
        // What can be read can be worked with.
        _ = record.memberships
        _ = record.encoded(table)
      } catch {
        #expect(!error.text.isEmpty)
      }
    }
    #expect(readable > 0)
  }
}
