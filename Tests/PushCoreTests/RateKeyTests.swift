import PushCore
import Testing

/// The device's hash: reference vectors of SipHash-2-4-128, its text, and that fields do not run together.
struct RateKeyTests {
  /// Key 00…0f, message 00…(n-1): the first rows of the reference implementation's `vectors_sip128`.
  @Test func referenceVectors() {
    let key0: UInt64 = 0x0706_0504_0302_0100
    let key1: UInt64 = 0x0F0E_0D0C_0B0A_0908
    let empty = SipHash128(key0: key0, key1: key1).finish()
    #expect(empty.first == 0xE6A8_25BA_047F_81A3)
    #expect(empty.second == 0x9302_55C7_1472_F66D)
    let one = SipHash128(key0: key0, key1: key1).finish(tail: 0, tailCount: 1)
    #expect(one.first == 0x44AF_996B_D8C1_87DA)
    #expect(one.second == 0x45FC_229B_1159_7634)
  }

  @Test func fieldsDoNotRunTogether() {
    func key(_ environment: APNsEnvironment, _ topic: String, _ token: String) -> TargetKey {
      let topic = Array(topic.utf8)
      let token = Array(token.utf8)
      return TargetKey(environment: environment, topic: topic.span, token: token.span)
    }
    let keys = [
      key(.production, "com.example", "00ff"), key(.sandbox, "com.example", "00ff"),
      key(.production, "com.exampl", "e00ff"), key(.production, "com.example0", "0ff"),
      key(.production, "", "com.example00ff"), key(.production, "com.example", "00ff\0"),
    ]
    #expect(Set(keys).count == keys.count)
    #expect(key(.production, "com.example", "00ff") == keys[0])
  }

  private func text(_ high: UInt64, _ low: UInt64) -> [UInt8] {
    var text = [UInt8](repeating: 0, count: TargetKey.textCount + 2)
    var span = text.mutableSpan
    TargetKey(high: high, low: low).writeText(into: &span, at: 1)
    #expect(text.first == 0 && text.last == 0, "nothing beside it is touched")
    return Array(text.dropFirst().dropLast())
  }

  /// Every digit, against an alphabet that is written out.
  @Test func textIsBase64() {
    let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
    var random = SeededRandom(seed: 4)
    for _ in 0..<1000 {
      let (high, low) = (random.next(), random.next())
      var expected: [UInt8] = []
      for word in [high >> 16, (high & 0xFFFF) << 32 | low >> 32] {
        for shift in stride(from: 42, through: 0, by: -6) { expected.append(alphabet[Int(word >> UInt64(shift) & 63)]) }
      }
      for shift in stride(from: 30, through: 0, by: -6) {
        expected.append(alphabet[Int(low & 0xFFFF_FFFF) >> shift & 63])
      }
      #expect(text(high, low) == expected)
    }
  }

  @Test func textsDifferWhereKeysDo() {
    var random = SeededRandom(seed: 3)
    var texts: Set<[UInt8]> = []
    for bit in 0..<128 {
      let low: UInt64 = bit < 64 ? 1 << UInt64(bit) : 0
      let high: UInt64 = bit < 64 ? 0 : 1 << UInt64(bit - 64)
      let text = text(high, low)
      #expect(texts.insert(text).inserted, "bit \(bit)")
    }
    for _ in 0..<1000 {
      let text = text(random.next(), random.next())
      #expect(text.allSatisfy { $0 > 0x2C && $0 < 0x7B && $0 != UInt8(ascii: ":") })
      #expect(texts.insert(text).inserted)
    }
  }
}
