/// Small tools of the core.
import PushCore
import Testing

@Suite struct SupportTests {
  @Test func backoffDoublesUpToItsBound() {
    var backoff = Backoff(initialMilliseconds: 100, maximumMilliseconds: 1000)
    for longest in [100, 200, 400, 800, 1000, 1000] as [Int64] {
      var shortest = Int64.max
      var longestSeen: Int64 = 0
      var random = SeededRandom(seed: 9)
      let before = backoff
      for _ in 0..<500 {
        backoff = before
        let wait = backoff.failed(random: random.next())
        shortest = min(shortest, wait)
        longestSeen = max(longestSeen, wait)
      }
      #expect(shortest >= longest / 2 && longestSeen <= longest)
      #expect(longestSeen - shortest > longest / 4, "jitter")
    }
    backoff.succeeded()
    #expect(backoff.failed(random: 0) == 50)
  }

  /// The first numbers of the reference implementation.
  @Test func randomNumbersRepeat() {
    var random = SeededRandom(seed: 1_234_567)
    #expect(
      (0..<3).map { _ in random.next() } == [
        6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
      ])
  }

  @Test func knowsHexadecimalDigits() {
    for byte in UInt8.min...UInt8.max {
      for place in [0, 3, 7, 8, 10] {
        var text = [UInt8](repeating: UInt8(ascii: "0"), count: 11)
        text[place] = byte
        let digit = Character(Unicode.Scalar(byte))
        let expected: Hex.Digits =
          byte > 127 || !digit.isHexDigit ? .invalid : digit.isUppercase ? .mixedCase : .lowerCase
        #expect(Hex.classify(text.span) == expected, "\(byte)")
      }
    }
  }

  @Test func writesHexadecimalDigits() {
    #expect(Hex.text([0, 0x0A, 0xFF]) == "000aff")
    #expect(Hex.text(0, count: 4) == "0000" && Hex.text(0xABC, count: 4) == "0abc")
    #expect(Hex.text(UInt64.max, count: 2) == "ffffffffffffffff")
  }

  @Test func namesTheNearestWord() {
    let words = ["collapse_id", "push_type", "to", "id", "topic"]
    #expect(EditDistance.nearest(to: "colapse_id", among: words) == "collapse_id")
    #expect(EditDistance.nearest(to: "pushType", among: words) == "push_type")
    #expect(EditDistance.nearest(to: "tpoic", among: words) == "topic")
    #expect(EditDistance.nearest(to: "something_else", among: words) == nil)
    #expect(EditDistance.nearest(to: "collapse", among: words) == "collapse_id")
    #expect(EditDistance.nearest(to: "os", among: ["at", "os_version"]) == "os_version")
    #expect(EditDistance.nearest(to: "os", among: ["at", "id"]) == nil, "no letter is the same")
    #expect(EditDistance.nearest(to: "ot", among: words) == "to")
    #expect(EditDistance.nearest(to: "token", among: ["token_registered_at", "topic"]) == nil, "it means to.token")
  }

  @Test func comparesBytesWithText() {
    let bytes = Array("production".utf8)
    for (text, isSame) in [("production", true), ("productio", false), ("productiom", false), ("", false)] {
      let result = bytes.span.equals(text)
      #expect(result == isSame, "\(text)")
    }
    let (middle, end) = (bytes.span.word(at: 2, count: 3), bytes.span.word(at: 8, count: 2))
    #expect(middle == 0x75_646F)
    #expect(end == 0x6E6F)
  }
}
