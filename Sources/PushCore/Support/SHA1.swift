/// SHA-1 (RFC 3174), only for version-5 UUIDs: nothing here relies on it for security.
package struct SHA1 {
  private var state: (UInt32, UInt32, UInt32, UInt32, UInt32) = (
    0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476, 0xC3D2_E1F0
  )
  /// The current block, as big-endian words.
  private var block = InlineArray<16, UInt32>(repeating: 0)
  private var byteCount: UInt64 = 0

  package init() {}

  mutating func update(byte: UInt8) {
    let position = Int(byteCount & 63)
    // A word's bytes come in order: the first one overwrites the last block's word.
    let shifted = UInt32(byte) << UInt32(24 - (position & 3) * 8)
    block[position >> 2] = position & 3 == 0 ? shifted : block[position >> 2] | shifted
    byteCount += 1
    if position == 63 { compress() }
  }

  package mutating func update(_ bytes: Span<UInt8>) {
    for index in 0..<bytes.count { update(byte: bytes[index]) }
  }

  /// Eight bytes, the highest first.
  mutating func update(word: UInt64) {
    for shift in stride(from: UInt64(56), through: 0, by: -8) { update(byte: UInt8(truncatingIfNeeded: word >> shift)) }
  }

  /// The digest's five words. Nothing may be added afterwards.
  package mutating func finish() -> (UInt32, UInt32, UInt32, UInt32, UInt32) {
    let bitCount = byteCount * 8
    update(byte: 0x80)
    while byteCount & 63 != 56 { update(byte: 0) }
    update(word: bitCount)
    return state
  }

  private mutating func compress() {
    var words = block
    var (a, b, c, d, e) = state
    for round in 0..<80 {
      let slot = round & 15
      if round >= 16 {
        let mixed = words[(round + 13) & 15] ^ words[(round + 8) & 15] ^ words[(round + 2) & 15] ^ words[slot]
        words[slot] = mixed << 1 | mixed >> 31
      }
      let mix: UInt32
      let constant: UInt32
      switch round {
      case 0..<20: (mix, constant) = (b & c | ~b & d, 0x5A82_7999)
      case 20..<40: (mix, constant) = (b ^ c ^ d, 0x6ED9_EBA1)
      case 40..<60: (mix, constant) = (b & c | b & d | c & d, 0x8F1B_BCDC)
      default: (mix, constant) = (b ^ c ^ d, 0xCA62_C1D6)
      }
      let next = (a << 5 | a >> 27) &+ mix &+ e &+ words[slot] &+ constant
      (a, b, c, d, e) = (next, a, b << 30 | b >> 2, c, d)
    }
    state = (state.0 &+ a, state.1 &+ b, state.2 &+ c, state.3 &+ d, state.4 &+ e)
  }
}
