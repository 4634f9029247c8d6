/// Names one device of one app in shared state: 128 bits of a hash of environment, topic and token (or channel).
///
/// A token is never stored readable, and every key has one length. The hash is SipHash-2-4 with 128 bits of output and a
/// fixed key: replicas must agree, and nobody gains by making two of their own tokens collide.
package struct GateKey: Hashable, Sendable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Counts stand before the fields and each field is padded to whole words, so no two triples give the same words.
  package init(environment: APNsEnvironment, topic: Span<UInt8>, token: Span<UInt8>) {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2070, key1: 0x7573_6820_6761_7465)
    let counts = UInt64(UInt32(truncatingIfNeeded: topic.count)) << 32 | UInt64(UInt32(truncatingIfNeeded: token.count))
    hash.append(counts)
    hash.append(UInt64(environment.rawValue))
    hash.append(padding: topic)
    hash.append(padding: token)
    (low, high) = hash.finish()
  }

  /// Length of the text form.
  package static let textCount = 22

  /// Writes both words as 22 digits of 6 bits (`A–Z a–z 0–9 - _`): short, and readable in `redis-cli`.
  package static func writeText(high: UInt64, low: UInt64, into output: inout [UInt8], at offset: Int) {
    precondition(offset >= 0 && offset + textCount <= output.count)
    var span = output.mutableSpan
    var shift: UInt64 = 60
    for index in 0..<11 {
      span[offset + index] = digit(high >> shift)
      span[offset + 11 + index] = digit(low >> shift)
      shift &-= 6
    }
  }

  package func writeText(into output: inout [UInt8], at offset: Int) {
    GateKey.writeText(high: high, low: low, into: &output, at: offset)
  }

  /// Eleven digits hold 66 bits: the first one carries only the top 4. Arithmetic and no table: the gaps between the ranges are added where a value lies behind them.
  @inline(__always)
  private static func digit(_ bits: UInt64) -> UInt8 {
    let value = UInt8(truncatingIfNeeded: bits) & 63
    var digit = value &+ UInt8(ascii: "A")
    digit &+= value > 25 ? 6 : 0
    digit &-= value > 51 ? 75 : 0
    digit &-= value == 62 ? 13 : 0
    digit &+= value == 63 ? 36 : 0
    return digit
  }
}
