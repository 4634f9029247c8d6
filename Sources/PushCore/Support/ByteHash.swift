/// A fast hash of bytes for tables of this process, eight bytes a step. Not for bytes that an adversary chooses, and not for storage.
package enum ByteHash {
  package static func hash(_ bytes: Span<UInt8>) -> UInt64 {
    var state = UInt64(truncatingIfNeeded: bytes.count) &* 0x9E37_79B9_7F4A_7C15
    var offset = 0
    while offset < bytes.count {
      state = mixed(state ^ bytes.word(at: offset, count: bytes.count &- offset))
      offset &+= 8
    }
    return mixed(state)
  }

  /// Whether two spans hold the same bytes.
  package static func areSame(_ one: Span<UInt8>, _ other: Span<UInt8>) -> Bool { one.isSame(as: other) }

  @inline(__always)
  private static func mixed(_ value: UInt64) -> UInt64 {
    var result = value &* 0xBF58_476D_1CE4_E5B9
    result ^= result >> 29
    result = result &* 0x94D0_49BB_1331_11EB
    return result ^ result >> 32
  }
}
