import PushCore
import Testing

/// The bounded table and the remembered outcome's text.
struct RateMemoryTests {
  @Test func theTableStaysBoundedAndKeepsWhatIsUsed() {
    var table = AdmissionTable<Int, Int>(capacity: 100)
    for key in 0..<10_000 {
      table.set(key, for: key, endsAt: 1_000_000, nowMilliseconds: 0)
      #expect(table.count <= 100)
      #expect(table.value(for: 0, nowMilliseconds: 0) == 0, "used all the time")
    }
    #expect(table.value(for: 9_999, nowMilliseconds: 0) == 9_999)
    #expect(table.value(for: 5_000, nowMilliseconds: 0) == nil)
  }

  @Test func entriesEnd() {
    var table = AdmissionTable<Int, Int>(capacity: 10)
    table.set(1, for: 1, endsAt: 50, nowMilliseconds: 0)
    #expect(table.value(for: 1, nowMilliseconds: 49) == 1)
    #expect(table.value(for: 1, nowMilliseconds: 50) == nil)
    #expect(table.isEmpty)
  }

  @Test(arguments: 1...10 as ClosedRange<UInt64>)
  func theTableAgreesWithADictionary(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var table = AdmissionTable<Int, Int>(capacity: 64)
    var model: [Int: (value: Int, endsAt: Int64)] = [:]
    for step in 0..<20_000 {
      let now = Int64(step)
      let key = Int.random(in: 0..<60, using: &random)
      switch random.next() % 3 {
      case 0:
        let endsAt = now + Int64.random(in: 1...500, using: &random)
        table.set(step, for: key, endsAt: endsAt, nowMilliseconds: now)
        model[key] = (step, endsAt)
      case 1:
        let expected = model[key].flatMap { $0.endsAt > now ? $0.value : nil }
        #expect(table.value(for: key, nowMilliseconds: now) == expected)
      default:
        table.removeValue(for: key)
        model[key] = nil
      }
    }
  }

  @Test func outcomesComeBackAsTheyWere() throws {
    var random = SeededRandom(seed: 11)
    let reasons: [APNsReason?] = [nil, .unregistered, .badDeviceToken, .other("New, reason"), .payloadTooLarge]
    // An audience's end is not a device's: no store remembers it.
    let outcomes = Outcome.allCases.filter { $0 != .completed }
    for step in 0..<2000 {
      let completedAt = Int64(random.next() % 4_000_000_000_000)
      let outcome = RememberedOutcome(
        outcome: outcomes[step % outcomes.count], status: step % 3 == 0 ? nil : UInt16(step % 600),
        reason: reasons[step % reasons.count], unregisteredAt: step % 5 == 0 ? Int64(random.next() % 9_999_999) : nil,
        attempts: UInt32(truncatingIfNeeded: random.next() % 5), isAmbiguous: step % 2 == 0,
        sentAt: step % 4 == 0 ? nil : completedAt - 31, completedAt: completedAt)
      var bytes: [UInt8] = []
      outcome.encode(into: &bytes)
      #expect(bytes.count <= RememberedOutcome.encodedCountMaximum)
      #expect(RememberedOutcome(decoding: bytes.span) == outcome)
    }
  }

  /// The bytes in Redis, which workers of other versions read.
  @Test func theBytesAreTheseAndFew() {
    let accepted = RememberedOutcome(
      outcome: .accepted, status: 200, attempts: 1, sentAt: 1_796_000_000_004, completedAt: 1_796_000_000_031)
    let gone = RememberedOutcome(
      outcome: .unregistered, status: 410, reason: .unregistered, unregisteredAt: 1_795_990_000_000, attempts: 2,
      isAmbiguous: true, sentAt: 1_796_000_000_058, completedAt: 1_796_000_000_031)
    let expired = RememberedOutcome(outcome: .expired, attempts: 0, sentAt: nil, completedAt: 1_796_000_000_031)
    // 200 less 200 is 0; 27 ms forward is 54, back 53; 210 is 420, in seven bits each 36 and 3.
    let completion: [UInt8] = [0xBE, 0xA0, 0x89, 0x9F, 0xC5, 0x68]
    func bytes(_ outcome: RememberedOutcome) -> [UInt8] {
      var bytes: [UInt8] = []
      outcome.encode(into: &bytes)
      return bytes
    }
    #expect(bytes(accepted) == [0 | 16 | 32] + completion + [2, 0, 54])
    #expect(
      bytes(gone) == [2 | 8 | 16 | 32 | 64 | 128] + completion + [4, 0x80 | 36, 3, 53]
        + [0x80, 0xC6, 0xC4, 0x95, 0xC5, 0x68] + Array("Unregistered".utf8))
    #expect(bytes(expired) == [3] + completion + [0])
  }

  @Test(arguments: [0, Int64.max]) func extremesFit(sentAt: Int64) {
    let outcome = RememberedOutcome(
      outcome: .failed, status: .max, reason: .other(String(repeating: "x", count: 64)), unregisteredAt: .min,
      attempts: .max, isAmbiguous: true, sentAt: sentAt, completedAt: .min)
    var bytes: [UInt8] = []
    outcome.encode(into: &bytes)
    #expect(bytes.count <= RememberedOutcome.encodedCountMaximum)
    #expect((bytes.count == RememberedOutcome.encodedCountMaximum) == (sentAt == 0), "the widest has no wrapped time")
    #expect(RememberedOutcome(decoding: bytes.span) == nil, "its times are none")
  }

  @Test(arguments: [0, Limits.unixMillisecondsMaximum]) func extremesAreRead(time: Int64) {
    let outcome = RememberedOutcome(
      outcome: .failed, status: .max, reason: .other(String(repeating: "x", count: 64)), unregisteredAt: time,
      attempts: .max, isAmbiguous: true, sentAt: time, completedAt: time)
    var bytes: [UInt8] = []
    outcome.encode(into: &bytes)
    #expect(RememberedOutcome(decoding: bytes.span) == outcome)
  }

  @Test(arguments: 1...5 as ClosedRange<UInt64>)
  func brokenBytesAreNothingOrSomethingButNeverATrap(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let outcome = RememberedOutcome(
      outcome: .unregistered, status: 410, reason: .unregistered, unregisteredAt: 1_795_990_000_000, attempts: 2,
      isAmbiguous: true, sentAt: 1_796_000_000_058, completedAt: 1_796_000_000_031)
    var sample: [UInt8] = []
    outcome.encode(into: &sample)
    var refused = 0
    for _ in 0..<20_000 {
      var bytes = sample
      for _ in 0..<Int.random(in: 1...4, using: &random) {
        switch random.next() % 3 {
        case 0: bytes[Int.random(in: 0..<bytes.count, using: &random)] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.removeLast(Int.random(in: 0..<bytes.count, using: &random))
        default: bytes.insert(UInt8(ascii: "9"), at: Int.random(in: 0...bytes.count, using: &random))
        }
        if bytes.isEmpty { break }
      }
      if RememberedOutcome(decoding: bytes.span) == nil { refused += 1 }
    }
    #expect(refused > 1000)
    let broken: [[UInt8]] = [
      [], [0], [0, 2], [7, 2, 2], [0, 2, 3], [0, 0x80, 0x80], [0, 2, 2, 65], [16, 2, 2], [32, 2, 2], [64, 2, 2, 0x80],
      [0] + [UInt8](repeating: 0xFF, count: 9) + [2, 2], [16, 2, 2, 0x91, 3],
      [0, 2] + [0x80, 0x80, 0x80, 0x80, 0x20], [128, 2, 2] + [UInt8](repeating: 65, count: 101),
    ]
    for bytes in broken { #expect(RememberedOutcome(decoding: bytes.span) == nil, "\(bytes)") }
  }
}
