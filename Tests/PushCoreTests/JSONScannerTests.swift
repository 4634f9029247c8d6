/// The scanner accepts exactly what RFC 8259 allows.
import PushCore
import Testing

@Suite struct JSONScannerTests {
  static let accepted = [
    "{}", "[]", "0", "-0", "-0.0", "1", "10", "123456789012345678901234567890", "1.5", "1e5", "1E+5", "1e-5", "1.0e10",
    "0e0", "0.1", "true", "false", "null", "\"\"", "\"a\"", " \t\r\n[1 , 2]\n ", "[[[[]]]]", "{\"a\":{\"b\":[{}]}}",
    "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\u0000\"", "\"\\uD83D\\uDE00\"",
    "\"\\ud83d\\ude00 and more than eight bytes\"",
    "\"é\"", "\"日本語\"", "\"😀\"", "\"\u{7F}\"", "{\"a\":1,\"a\":2}", "\"exactly8\"", "\"exactly15bytes_\"",
    "[\"1234567\",\"12345678\",\"123456789\"]", "\"\u{10FFFF}\u{E000}\u{D7FF}\u{800}\u{80}\"",
  ]

  @Test(arguments: accepted) func takesWhatIsJSON(_ text: String) {
    #expect(scanError(text) == nil)
  }

  static let refused: [(String, JSONError.Kind)] = [
    ("", .unexpectedEnd), (" ", .unexpectedEnd), ("{", .unexpectedEnd), ("[", .unexpectedEnd), ("\"", .unexpectedEnd),
    ("[1,]", .expectedValue), ("[,1]", .expectedValue), ("[1 2]", .expectedCommaOrBracket), ("[1", .unexpectedEnd),
    ("{\"a\":1,}", .expectedKey), ("{,}", .expectedKey), ("{a:1}", .expectedKey), ("{'a':1}", .expectedKey),
    ("{\"a\" 1}", .expectedColon), ("{\"a\":}", .expectedValue), ("{\"a\":1 \"b\":2}", .expectedCommaOrBrace),
    ("{\"a\":1]", .expectedCommaOrBrace), ("[1}", .expectedCommaOrBracket), ("{\"a\"", .unexpectedEnd),
    ("01", .badNumber), ("-01", .badNumber), ("00", .badNumber), ("-", .unexpectedEnd), ("-a", .badNumber),
    ("1.", .unexpectedEnd), ("1.e5", .badNumber), ("1e", .unexpectedEnd), ("1e+", .unexpectedEnd), ("1ex", .badNumber),
    (".5", .expectedValue), ("+1", .expectedValue), ("0x10", .trailingBytes), ("1_000", .trailingBytes),
    ("NaN", .expectedValue), ("Infinity", .expectedValue), ("-Infinity", .badNumber),
    ("tru", .badLiteral), ("True", .expectedValue), ("nul", .badLiteral), ("falsy", .badLiteral),
    ("truex", .trailingBytes),
    ("\"a", .unexpectedEnd), ("\"a\\", .unexpectedEnd), ("\"\\x\"", .badEscape), ("\"\\a\"", .badEscape),
    ("\"\\u12\"", .badEscape), ("\"\\u12G4\"", .badEscape), ("\"\\u12", .unexpectedEnd), ("\"\\U0041\"", .badEscape),
    ("\"\\uD83D\"", .loneSurrogate), ("\"\\uD83Dx\"", .loneSurrogate), ("\"\\uDE00\"", .loneSurrogate),
    ("\"\\uD83D\\u0041\"", .loneSurrogate), ("\"\\uD83D\\n....\"", .loneSurrogate), ("\"\\uD83D", .unexpectedEnd),
    ("\"\n\"", .controlCharacter), ("\"long enough\u{1F}\"", .controlCharacter), ("\"\u{0}\"", .controlCharacter),
    ("{} x", .trailingBytes), ("[]]", .trailingBytes), ("1 2", .trailingBytes), ("/**/1", .expectedValue),
    ("\u{FEFF}1", .expectedValue), ("\u{A0}1", .expectedValue), ("\u{0B}1", .expectedValue),
  ]

  @Test(arguments: refused) func refusesWhatIsNot(_ text: String, _ kind: JSONError.Kind) {
    #expect(scanError(text)?.kind == kind, "\(text)")
  }

  @Test func tellsTheOffset() {
    #expect(scanError("[1, 2, x]") == JSONError(.expectedValue, at: 7))
    #expect(scanError("{\"a\": \"12345678901\u{1}\"}") == JSONError(.controlCharacter, at: 18))
    #expect(scanError("[1,") == JSONError(.unexpectedEnd, at: 3))
  }

  static let badUTF8: [[UInt8]] = [
    [0x80], [0xBF], [0xC0, 0x80], [0xC1, 0xBF], [0xC2], [0xC2, 0x41], [0xE0, 0x80, 0x80], [0xE0, 0x9F, 0xBF],
    [0xE1, 0x80],
    [0xED, 0xA0, 0x80], [0xED, 0xBF, 0xBF], [0xF0, 0x80, 0x80, 0x80], [0xF0, 0x8F, 0xBF, 0xBF],
    [0xF4, 0x90, 0x80, 0x80],
    [0xF5, 0x80, 0x80, 0x80], [0xFF], [0xE2, 0x28, 0xA1], [0xE2, 0x82, 0x28], [0xF0, 0x9F, 0x28, 0x80],
    [0xF0, 0x9F, 0x98, 0x28],
  ]

  /// At every position within a word of eight bytes.
  @Test(arguments: badUTF8) func refusesWhatIsNotUTF8(_ bad: [UInt8]) {
    for before in 0..<10 {
      for after in [0, 1, 9] {
        let text = [0x22] + Array(repeating: 0x61, count: before) + bad + Array(repeating: 0x61, count: after) + [0x22]
        #expect(scanError(text)?.kind == .badUTF8, "\(text)")
      }
    }
  }

  /// Each byte at each place of a word: the search by words finds the same as a search byte by byte.
  @Test func findsEveryByteThatEndsAString() {
    for place in 0..<20 {
      for byte in UInt8.min...UInt8.max {
        var text = [UInt8](repeating: 0x61, count: 24)
        text[0] = 0x22
        text[23] = 0x22
        text[place + 1] = byte
        let error = scanError(text)
        switch byte {
        case 0x22: #expect(error?.kind == .trailingBytes)
        case 0x5C: #expect(error?.kind == .badEscape)
        case 0..<0x20: #expect(error == JSONError(.controlCharacter, at: place + 1))
        case 0x80...: #expect(error == JSONError(.badUTF8, at: place + 1))
        default: #expect(error == nil)
        }
      }
    }
  }

  @Test func boundsItsDepth() {
    let deepest =
      String(repeating: "[", count: Limits.jsonDepthMaximum) + String(repeating: "]", count: Limits.jsonDepthMaximum)
    #expect(scanError("[\(deepest)]")?.kind == .tooDeep || scanError(deepest) == nil)
    #expect(scanError("[" + deepest.replacing("[]", with: "[1]") + "]")?.kind == .tooDeep)
    #expect(scanError(String(repeating: "[{\"a\":", count: 100_000))?.kind == .tooDeep)
  }

  @Test func readsIntegers() throws {
    for (text, value) in [
      ("0", 0), ("-0", 0), ("42", 42), ("-7", -7), ("9223372036854775807", Int64.max),
      ("9223372036854775808", nil), ("-9223372036854775807", -Int64.max), ("99999999999999999999", nil), ("1.0", nil),
      ("1e3", nil),
    ] as [(String, Int64?)] {
      var scanner = JSONScanner()
      let bytes = Array(text.utf8)
      #expect(try scanner.number(bytes.span).integer == value, "\(text)")
      #expect(scanner.position == bytes.count)
    }
  }

  @Test func wholeNumbersAreWhole_howeverTheyAreWritten() throws {
    for (text, value) in [
      ("5", 5), ("5.0", 5), ("-5.000", -5), ("1e2", 100), ("1.5E1", 15), ("12.50e1", 125), ("100e-2", 1),
      ("0.0e-99", 0),
      ("1756000000.0", 1_756_000_000), ("1.756e+9", 1_756_000_000), ("9223372036854775807.0", Int64.max),
      ("922337203685477580.7e1", Int64.max), ("0.00000000000000000000001e23", 1), ("-0.0", 0),
      ("10000000000000000000000e-22", 1), ("1e18", 1_000_000_000_000_000_000),
      ("1e19", nil), ("9223372036854775808.0", nil), ("1.5", nil), ("1e-1", nil), ("105e-1", nil),
      ("1e99999999999999999999", nil), ("1e-99999999999999999999", nil), ("0e99999999999999999999", 0),
      ("99999999999999999999", nil), ("184467440737095516160.5", nil),
    ] as [(String, Int64?)] {
      var scanner = JSONScanner()
      let bytes = Array(text.utf8)
      #expect(try scanner.number(bytes.span).whole(in: bytes.span) == value, "\(text)")
    }
  }
}
