/// Eight bytes at once, or four, for what is written a word at a time.
extension MutableSpan<UInt8> {
  /// The lowest byte first.
  @inlinable
  package mutating func store(littleEndian value: UInt64, at offset: Int) {
    store(bigEndian: value.byteSwapped, at: offset)
  }

  /// The highest byte first.
  @inlinable
  package mutating func store(bigEndian value: UInt64, at offset: Int) {
    precondition(offset >= 0 && offset <= count - 8)
    for index in 0..<8 { self[offset &+ index] = UInt8(truncatingIfNeeded: value >> UInt64(56 - 8 * index)) }
  }

  /// Four bytes, the lowest first.
  @inlinable
  package mutating func store(littleEndian value: UInt32, at offset: Int) {
    precondition(offset >= 0 && offset <= count - 4)
    for index in 0..<4 { self[offset &+ index] = UInt8(truncatingIfNeeded: value >> UInt32(8 * index)) }
  }
}
