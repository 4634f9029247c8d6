import PushCore
import Testing

@Suite struct PercentEncodingTests {
  @Test(
    "All but letters, digits and -._~ is escaped, with upper-case digits",
    arguments: [
      ("", ""), ("order-17_a.b~C", "order-17_a.b~C"), ("a/b?c", "a%2Fb%3Fc"), ("ä %", "%C3%A4%20%25"),
      ("\u{0}\u{7F}", "%00%7F"),
      ("@[`{", "%40%5B%60%7B"),
    ])
  func escapes(text: String, encoded: String) {
    #expect(PercentEncoding.encode(text) == encoded)
  }

  @Test("What was encoded decodes to the same text")
  func roundTrip() throws {
    var random = SeededRandom(seed: 19)
    for _ in 0..<2_000 {
      let scalars = (0..<Int.random(in: 0...20, using: &random)).compactMap { _ in
        Unicode.Scalar(UInt32.random(in: 0...(Bool.random(using: &random) ? 0x7F : 0x1_FFFF), using: &random))
      }
      var text = ""
      text.unicodeScalars.append(contentsOf: scalars)
      let encoded = PercentEncoding.encode(text)
      #expect(encoded.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") })
      #expect(try PercentEncoding.decode(Substring(encoded)) == text)
    }
  }
}
