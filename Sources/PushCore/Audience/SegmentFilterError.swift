/// Why a filter is refused, and where.
package struct SegmentFilterError: Error, Hashable, Sendable, CustomStringConvertible {
  package enum Place: Hashable, Sendable {
    /// A JSON pointer (RFC 6901), such as `/any/1/tag`; empty for the whole filter.
    case pointer(String)
    /// In broken JSON, and in the text form.
    case byte(Int)
  }

  package let place: Place
  /// Text that can follow the place: "must be a string, not 7". Printable ASCII and the ellipsis, bounded.
  package let rule: String

  package init(_ place: Place, _ rule: String) {
    self.place = place
    self.rule = rule
  }

  init(_ error: JSONError, in bytes: Span<UInt8>) {
    let text = error.kind == .trailingBytes ? "nothing may follow the filter" : error.text
    self.init(.byte(error.offset), "is not JSON: \(text)\(SegmentFilterError.seen(bytes, at: error.offset))")
  }

  package var description: String {
    switch place {
    case .pointer(""): "the filter \(rule)"
    case .pointer(let pointer): "\(pointer) \(rule)"
    case .byte(let offset): "the filter, at byte \(offset), \(rule)"
    }
  }

  /// The byte at an offset, as a text to follow a rule; empty at the end.
  static func seen(_ bytes: Span<UInt8>, at offset: Int) -> String {
    guard offset < bytes.count else { return "" }
    return ", not \(JobError.describe(bytes, ByteRange(start: offset, count: 1)))"
  }
}
