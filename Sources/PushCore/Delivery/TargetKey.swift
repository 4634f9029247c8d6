/// Names one device of one app in the admission store: 128 bits of a hash of environment, topic and token (or channel).
///
/// A token is never stored readable, and all keys have one length. The hash is SipHash-2-4 with 128 bits of output and a fixed key:
/// all workers must compute the same hash, and a producer gains nothing from a collision of its own tokens.
package struct TargetKey: Hashable, Sendable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Counts precede the fields, and each field is padded to whole words, so no two triples give the same words.
  package init(environment: APNsEnvironment, topic: Span<UInt8>, token: Span<UInt8>) {
    var hash = SipHash128(key0: 0x6865_7261_6C64_2070, key1: 0x7573_6820_6761_7465)
    let counts = UInt64(UInt32(truncatingIfNeeded: topic.count)) << 32 | UInt64(UInt32(truncatingIfNeeded: token.count))
    hash.append(counts)
    hash.append(UInt64(environment.rawValue))
    hash.append(padding: topic)
    hash.append(padding: token)
    (low, high) = hash.finish()
  }

  /// The device, or channel, of one target of a job.
  package init(_ job: borrowing PushJob, target: Int) {
    let bytes = job.bytes.span
    self.init(
      environment: job.environment, topic: bytes.extracting(job.topic.range),
      token: bytes.extracting(job.targets[target].range))
  }

  /// Length of the text form.
  package static let textCount = 22

  /// Writes both words as 22 digits of 6 bits (`A–Z a–z 0–9 - _`): short, and readable in `redis-cli`.
  package static func writeText(high: UInt64, low: UInt64, into output: inout MutableSpan<UInt8>, at offset: Int) {
    precondition(offset >= 0 && offset + textCount <= output.count)
    // The last 32 bits fill six digits of eight; the word before it takes the place of the two others.
    output.store(bigEndian: digits(low & 0xFFFF_FFFF), at: offset + 14)
    output.store(bigEndian: digits((high & 0xFFFF) << 32 | low >> 32), at: offset + 8)
    output.store(bigEndian: digits(high >> 16), at: offset)
  }

  package func writeText(into output: inout MutableSpan<UInt8>, at offset: Int) {
    TargetKey.writeText(high: high, low: low, into: &output, at: offset)
  }

  /// 48 bits as eight digits, a byte each, the first one highest. Spread in three steps, then all bytes are mapped at once:
  /// arithmetic and no table, the gaps between the ranges are added where a value lies behind them.
  private static func digits(_ bits: UInt64) -> UInt64 {
    var word = (bits & 0xFFFF_FF00_0000) << 8 | bits & 0xFF_FFFF
    word = (word & 0x00FF_F000_00FF_F000) << 4 | word & 0x0000_0FFF_0000_0FFF
    word = (word & 0x0FC0_0FC0_0FC0_0FC0) << 2 | word & 0x003F_003F_003F_003F
    let ones: UInt64 = 0x0101_0101_0101_0101
    // 1 in each byte that is at least `value`.
    func reached(_ value: UInt64) -> UInt64 { (word &+ (128 &- value) &* ones) >> 7 & ones }
    var text = word &+ UInt64(UInt8(ascii: "A")) &* ones
    text = text &+ reached(26) &* 6
    text = text &- reached(52) &* 75
    text = text &- reached(62) &* 13
    return text &+ reached(63) &* 49
  }
}
