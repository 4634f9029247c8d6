/// Why a job is invalid: the field, the rule that it breaks, and the value seen. Becomes `detail`
/// of the outcome `invalid`.
package struct JobError: Error, Hashable, Sendable {
  /// A path as in `payload.aps.alert.title` or `to.tokens[3]`; `body` for the message as a whole.
  package var field: String
  /// The rule in words, with the value seen: "must be a string, not 7". Printable ASCII, bounded.
  package var rule: String
  /// The offset of the JSON error; nil if the JSON is valid and a rule is broken.
  package var byteOffset: Int?
  /// The answer of a strict APNs if the job were sent unchecked.
  package var answer: RuleAnswer

  package init(field: String, rule: String, byteOffset: Int? = nil, answer: RuleAnswer = .noRequest) {
    self.field = field
    self.rule = rule
    self.byteOffset = byteOffset
    self.answer = answer
  }

  /// A rule of the request that the job becomes. `text`: the rule in words, with the value seen.
  init(_ rule: RequestRule, field: String? = nil, _ text: String) {
    self.init(field: field ?? rule.row.field, rule: text, answer: rule.row.answer)
  }

  /// Broken JSON.
  package init(_ error: JSONError, in bytes: Span<UInt8>) {
    if error.offset == 0 {
      for (mark, name) in JobError.encodings where JobError.begins(bytes, with: mark) {
        self.init(field: "body", rule: "\(name): publish plain JSON in UTF-8", byteOffset: 0)
        return
      }
    }
    var rule = "is not JSON: \(error.text), at byte \(error.offset)"
    if error.offset < bytes.count, error.kind != .unexpectedEnd {
      rule += ", not \(JobError.printable(bytes, from: error.offset, countMaximum: 1))"
    }
    self.init(field: "body", rule: rule, byteOffset: error.offset)
  }

  /// What a body that is no plain text begins with.
  private static let encodings: [(mark: [UInt8], name: String)] = [
    ([0x1F, 0x8B], "is compressed with gzip"), ([0x28, 0xB5, 0x2F, 0xFD], "is compressed with zstd"),
    ([0xEF, 0xBB, 0xBF], "begins with a byte order mark"), ([0xFF, 0xFE], "is UTF-16"), ([0xFE, 0xFF], "is UTF-16"),
  ]

  private static func begins(_ bytes: Span<UInt8>, with mark: [UInt8]) -> Bool {
    guard bytes.count >= mark.count else { return false }
    for index in mark.indices where bytes[index] != mark[index] { return false }
    return true
  }

  /// Field and rule, as in the outcome.
  package var detail: String { "\(field): \(rule)" }

  /// A JSON value in a few words: scalars as written, truncated; objects and arrays by their kind.
  static func describe(_ bytes: Span<UInt8>, valueAt start: Int) -> String {
    guard start < bytes.count else { return "nothing" }
    switch bytes[start] {
    case ASCII.openBrace: return "an object"
    case ASCII.openBracket: return "an array"
    default:
      var scanner = JSONScanner(position: start)
      let end = (try? scanner.skipValue(bytes)) == nil ? bytes.count : scanner.position
      return describe(bytes, ByteRange(start: start, count: end - start))
    }
  }

  /// Bytes as printable text, truncated.
  static func describe(_ bytes: Span<UInt8>, _ range: ByteRange) -> String {
    let shown = printable(bytes, from: range.range.lowerBound, countMaximum: min(excerptMaximum, Int(range.count)))
    return range.count > excerptMaximum ? "\(shown)… (\(range.count) bytes)" : shown
  }

  /// Text as printable text, truncated.
  static func describe(_ text: String) -> String {
    let bytes = text.utf8.span
    return describe(bytes, ByteRange(start: 0, count: bytes.count))
  }

  /// A key as written; it may be empty.
  static func describe(_ bytes: Span<UInt8>, key: JSONString) -> String {
    key.range.isEmpty ? "\"\"" : describe(bytes, key.range)
  }

  private static let excerptMaximum = 48

  private static func printable(_ bytes: Span<UInt8>, from start: Int, countMaximum: Int) -> String {
    var text = ""
    for index in start..<min(start + countMaximum, bytes.count) {
      let byte = bytes[index]
      if byte >= 0x20 && byte < 0x7F {
        text.unicodeScalars.append(Unicode.Scalar(byte))
      } else {
        text += "\\x" + Hex.text(byte, count: 2)
      }
    }
    return text
  }
}
