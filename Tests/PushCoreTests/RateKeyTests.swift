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
    func key(_ environment: APNsEnvironment, _ topic: String, _ token: String) -> GateKey {
      let topic = Array(topic.utf8)
      let token = Array(token.utf8)
      return GateKey(environment: environment, topic: topic.span, token: token.span)
    }
    let keys = [
      key(.production, "com.example", "00ff"), key(.sandbox, "com.example", "00ff"),
      key(.production, "com.exampl", "e00ff"), key(.production, "com.example0", "0ff"),
      key(.production, "", "com.example00ff"), key(.production, "com.example", "00ff\0"),
    ]
    #expect(Set(keys).count == keys.count)
    #expect(key(.production, "com.example", "00ff") == keys[0])
  }

  @Test func textsDifferWhereKeysDo() {
    var random = SeededRandom(seed: 3)
    var texts: Set<[UInt8]> = []
    for bit in 0..<128 {
      let low: UInt64 = bit < 64 ? 1 << UInt64(bit) : 0
      let high: UInt64 = bit < 64 ? 0 : 1 << UInt64(bit - 64)
      var text = [UInt8](repeating: 0, count: GateKey.textCount)
      GateKey(high: high, low: low).writeText(into: &text, at: 0)
      #expect(texts.insert(text).inserted, "bit \(bit)")
    }
    for _ in 0..<1000 {
      var text = [UInt8](repeating: 0, count: GateKey.textCount)
      GateKey(high: random.next(), low: random.next()).writeText(into: &text, at: 0)
      #expect(text.allSatisfy { $0 > 0x2C && $0 < 0x7B && $0 != UInt8(ascii: ":") })
      #expect(texts.insert(text).inserted)
    }
  }
}
