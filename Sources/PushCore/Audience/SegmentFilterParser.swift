/// Parses a `SegmentFilter` from foreign bytes: JSON, by `config/schemas/segment-filter.schema.json`, or the text form
/// (`SegmentTextParser`), which never begins with a brace.
package enum SegmentFilterParser {
  /// - Throws: the first fault, with its place. No input can trap, or cause deep recursion.
  package static func parse(_ bytes: [UInt8]) throws(SegmentFilterError) -> SegmentFilter {
    guard bytes.count <= SegmentLimits.bytesMaximum else { throw tooLong(bytes.count) }
    let span = bytes.span
    var scanner = JSONScanner()
    let first = scanner.peek(span)
    guard first != 0 || scanner.position < span.count else {
      throw SegmentFilterError(.pointer(""), "is empty")
    }
    // Any other JSON gets the error messages of JSON.
    let isJSON = first == ASCII.openBrace || first == ASCII.openBracket || first == ASCII.quote
    let filter = isJSON ? try parseJSON(span) : try SegmentTextParser.parse(span)
    // JSON escapes make some texts longer.
    let count = filter.json.count
    guard count <= SegmentLimits.bytesMaximum else { throw tooLong(count) }
    return filter
  }

  private static func parseJSON(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> SegmentFilter {
    var walk = SegmentJSONWalk()
    let filter = try walk.filter(bytes, depth: 1)
    try walk.end(bytes)
    return filter
  }

  private static func tooLong(_ count: Int) -> SegmentFilterError {
    SegmentFilterError(.pointer(""), "must be at most \(SegmentLimits.bytesMaximum) bytes, not \(count)")
  }
}
