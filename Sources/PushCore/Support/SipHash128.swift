/// SipHash-2-4 with 128 bits of output (Aumasson, Bernstein), fed in whole little-endian words.
package struct SipHash128: Sendable {
  private var v0: UInt64
  private var v1: UInt64
  private var v2: UInt64
  private var v3: UInt64
  private var byteCount: UInt64 = 0

  package init(key0: UInt64, key1: UInt64) {
    v0 = key0 ^ 0x736F_6D65_7073_6575
    v1 = key1 ^ 0x646F_7261_6E64_6F6D ^ 0xEE
    v2 = key0 ^ 0x6C79_6765_6E65_7261
    v3 = key1 ^ 0x7465_6462_7974_6573
  }

  package mutating func append(_ word: UInt64) {
    byteCount &+= 8
    compress(word)
  }

  /// The bytes, and zeros up to a whole word.
  package mutating func append(padding bytes: Span<UInt8>) {
    var index = 0
    while bytes.count - index >= 8 {
      let low =
        UInt64(bytes[index]) | UInt64(bytes[index + 1]) << 8 | UInt64(bytes[index + 2]) << 16
        | UInt64(bytes[index + 3]) << 24
      let high =
        UInt64(bytes[index + 4]) | UInt64(bytes[index + 5]) << 8 | UInt64(bytes[index + 6]) << 16
        | UInt64(bytes[index + 7]) << 24
      append(low | high << 32)
      index += 8
    }
    if index == bytes.count { return }
    var word: UInt64 = 0
    var shift: UInt64 = 0
    while index < bytes.count {
      word |= UInt64(bytes[index]) << shift
      shift += 8
      index += 1
    }
    append(word)
  }

  /// Ends the message with up to seven more bytes, packed from the low end of `tail`, and gives both output words.
  package consuming func finish(tail: UInt64 = 0, tailCount: Int = 0) -> (first: UInt64, second: UInt64) {
    precondition(tailCount >= 0 && tailCount < 8)
    compress((byteCount &+ UInt64(tailCount)) << 56 | tail & 0x00FF_FFFF_FFFF_FFFF)
    v2 ^= 0xEE
    for _ in 0..<4 { mix() }
    let first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    for _ in 0..<4 { mix() }
    return (first, v0 ^ v1 ^ v2 ^ v3)
  }

  @inline(__always)
  private mutating func compress(_ word: UInt64) {
    v3 ^= word
    mix()
    mix()
    v0 ^= word
  }

  @inline(__always)
  private mutating func mix() {
    v0 &+= v1
    v1 = (v1 << 13 | v1 >> 51) ^ v0
    v0 = v0 << 32 | v0 >> 32
    v2 &+= v3
    v3 = (v3 << 16 | v3 >> 48) ^ v2
    v0 &+= v3
    v3 = (v3 << 21 | v3 >> 43) ^ v0
    v2 &+= v1
    v1 = (v1 << 17 | v1 >> 47) ^ v2
    v2 = v2 << 32 | v2 >> 32
  }
}
