/// Rules that both forms of a filter share. A broken rule is a text to follow a place.
enum SegmentRules {
  struct Broken: Error {
    let rule: String
  }

  /// The broken rule of a tag's name; nil: valid.
  static func tag(_ text: String) -> String? {
    NameText.fault(text, bytesMaximum: Limits.tagNameBytesMaximum).map { "is no tag's name: it \($0)" }
  }

  /// The broken rule of a tag's text; nil: valid.
  static func value(_ text: String) -> String? {
    let maximum = Limits.tagTextBytesMaximum
    let count = text.utf8.count
    return count <= maximum ? nil : "must be at most \(maximum) bytes, not \(count)"
  }

  /// nil: outside a double's range. -0 is 0.
  static func number(_ bytes: Span<UInt8>, _ range: ByteRange) -> Double? {
    guard let number = Double(text(range, bytes)), number.isFinite else { return nil }
    return number == 0 ? 0 : number
  }

  static func locale(_ text: String) -> Result<SegmentCondition, Broken> {
    guard let locale = LocaleText.canonical(text) else {
      return .failure(Broken(rule: "\(LocaleText.rule), not \"\(shown(text))\""))
    }
    return .success(.locale(locale))
  }

  static func osAtLeast(_ text: String) -> Result<SegmentCondition, Broken> {
    guard let version = OSVersion(text: text) else {
      return .failure(Broken(rule: "\(OSVersion.rule), not \"\(shown(text))\""))
    }
    return .success(.osAtLeast(version))
  }

  static func seenWithin(_ text: String) -> Result<SegmentCondition, Broken> {
    guard text.utf8.last == UInt8(ascii: "d"), let days = digits(text.utf8.dropLast()),
      1...SegmentLimits.seenDaysMaximum ~= days
    else {
      let maximum = SegmentLimits.seenDaysMaximum
      return .failure(Broken(rule: "must be days such as 30d, from 1d to \(maximum)d, not \"\(shown(text))\""))
    }
    return .success(.seenWithin(days: days))
  }

  static func has(_ text: String) -> Result<SegmentCondition, Broken> {
    if text == "token" { return .success(.hasToken) }
    let head = "push_to_start:"
    let maximum = Limits.attributesTypeBytesMaximum
    guard text.utf8.starts(with: head.utf8), 1...maximum ~= text.utf8.count - head.utf8.count else {
      return .failure(
        Broken(
          rule: """
            must be token, or push_to_start: with an attributes type of 1 to \(maximum) bytes, or with *, \
            not \"\(shown(text))\"
            """))
    }
    return .success(.hasPushToStart(String(decoding: text.utf8.dropFirst(head.utf8.count), as: UTF8.self)))
  }

  static func segment(_ text: String) -> Result<SegmentCondition, Broken> {
    guard let code = SegmentCode(text) else {
      return .failure(Broken(rule: "\(SegmentCode.rule), not \"\(shown(text))\""))
    }
    return .success(.segment(code))
  }

  // MARK: - Texts

  /// A string that the scanner has read.
  static func text(_ string: JSONString, _ bytes: Span<UInt8>) -> String {
    guard string.hasEscapes else { return text(string.range, bytes) }
    return String(decoding: JSONEscape.unescaped(string.range, of: bytes), as: UTF8.self)
  }

  private static func text(_ range: ByteRange, _ bytes: Span<UInt8>) -> String {
    var copy: [UInt8] = []
    for index in range.range { copy.append(bytes[index]) }
    return String(decoding: copy, as: UTF8.self)
  }

  /// A foreign value, printable and shortened.
  static func shown(_ text: String) -> String {
    let bytes = Array(text.utf8)
    return JobError.describe(bytes.span, ByteRange(start: 0, count: bytes.count))
  }

  /// One to six digits; nil: anything else.
  private static func digits(_ text: some Collection<UInt8>) -> Int32? {
    guard 1...6 ~= text.count else { return nil }
    var number: Int32 = 0
    for byte in text {
      guard byte &- ASCII.zero < 10 else { return nil }
      number = number * 10 + Int32(byte &- ASCII.zero)
    }
    return number
  }
}
