package import PushCore

/// A stored segment: its filter and the time it was stored. In Redis: `<Unix ms> <filter in JSON>`.
package struct SegmentEntry: Hashable, Sendable {
  package let filter: SegmentFilter
  /// Unix milliseconds.
  package let putAt: Int64

  package init(filter: SegmentFilter, putAt: Int64) {
    self.filter = filter
    self.putAt = putAt
  }

  /// nil: not in this encoding.
  init?(_ bytes: [UInt8]) {
    guard let space = bytes.firstIndex(of: UInt8(ascii: " ")),
      let putAt = Int64(String(decoding: bytes[..<space], as: UTF8.self)),
      let filter = try? SegmentFilterParser.parse(Array(bytes[(space + 1)...]))
    else { return nil }
    self.init(filter: filter, putAt: putAt)
  }

  var encoded: [UInt8] { Array("\(putAt) ".utf8) + filter.json }
}
