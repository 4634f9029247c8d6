/// Where a field lies in a byte buffer: 8 bytes instead of a slice, which would retain the buffer.
package struct ByteRange: Hashable, Sendable {
  package var start: UInt32
  package var count: UInt32

  package init(start: Int, count: Int) {
    self.start = UInt32(truncatingIfNeeded: start)
    self.count = UInt32(truncatingIfNeeded: count)
  }

  package static let empty = ByteRange(start: 0, count: 0)

  package var isEmpty: Bool { count == 0 }
  package var range: Range<Int> { Int(start)..<Int(start) + Int(count) }
}
