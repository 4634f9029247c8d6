/// The one rule of ids that producers and apps choose: a device's, a user's, an activity's, a channel request's, a tag's name. They are parts
/// of keys in Redis, of logs and of tables.
package enum NameText {
  /// The rule in words, for a name of at most 128 bytes.
  package static let rule = "must be 1 to \(Limits.nameBytesMaximum) bytes without control characters"

  /// The broken rule of a name; nil: valid.
  package static func fault(_ name: Span<UInt8>, bytesMaximum: Int = Limits.nameBytesMaximum) -> String? {
    guard 1...bytesMaximum ~= name.count else { return "must be 1 to \(bytesMaximum) bytes, not \(name.count)" }
    for index in 0..<name.count where name[index] < ASCII.space || name[index] == 0x7F {
      return "must hold no control characters"
    }
    return nil
  }

  package static func fault(_ name: String, bytesMaximum: Int = Limits.nameBytesMaximum) -> String? {
    fault(name.utf8.span, bytesMaximum: bytesMaximum)
  }

  /// The rule of a segment's code in words.
  package static let codeRule =
    "must be 1 to \(Limits.codeBytesMaximum) letters, digits, hyphens, underscores, dots and colons"

  /// The broken rule of a segment's code; nil: valid.
  package static func codeFault(_ code: Span<UInt8>) -> String? {
    guard 1...Limits.codeBytesMaximum ~= code.count else { return codeRule }
    for index in 0..<code.count {
      switch code[index] {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), ASCII.zero...ASCII.nine,
        ASCII.minus, UInt8(ascii: "_"), ASCII.dot, ASCII.colon:
        continue
      default: return codeRule
      }
    }
    return nil
  }
}
