/// A UUID as its 128 bits: how `apns-id` is compared and stored.
package struct UUIDValue: Hashable, Sendable {
  package var high: UInt64
  package var low: UInt64

  package init(high: UInt64, low: UInt64) {
    self.high = high
    self.low = low
  }

  /// Length of the canonical text in bytes.
  package static let textCount = 36

  /// Reads canonical text: 36 bytes, lower-case, hyphens in place. nil for anything else, so each value has exactly one text.
  package init?(_ text: Span<UInt8>) {
    guard text.count == UUIDValue.textCount else { return nil }
    var high: UInt64 = 0
    var low: UInt64 = 0
    for index in 0..<UUIDValue.textCount {
      let byte = text[index]
      if UUIDValue.isHyphen(index) {
        guard byte == ASCII.minus else { return nil }
        continue
      }
      guard let digit = Hex.value(byte), byte < UInt8(ascii: "A") || byte >= UInt8(ascii: "a") else { return nil }
      if index < 18 { high = high << 4 | UInt64(digit) } else { low = low << 4 | UInt64(digit) }
    }
    self.init(high: high, low: low)
  }

  /// Reads text in whatever case: Apple's frameworks write upper case.
  package init?(anyCase text: Span<UInt8>) {
    guard text.count == UUIDValue.textCount else { return nil }
    var lower: [UInt8] = []
    for index in 0..<UUIDValue.textCount {
      let byte = text[index]
      lower.append(UInt8(ascii: "A")...UInt8(ascii: "Z") ~= byte ? byte | 0x20 : byte)
    }
    self.init(lower.span)
  }

  /// Appends the canonical text: 36 bytes.
  package func write(to output: inout [UInt8]) {
    output.append(addingCapacity: UUIDValue.textCount) { write(to: &$0) }
  }

  /// Appends the canonical text: 36 bytes, for which there must be room.
  package func write(to output: inout OutputSpan<UInt8>) {
    let words = (Hex.digits(UInt32(high >> 32)), Hex.digits(UInt32(truncatingIfNeeded: high)))
    let others = (Hex.digits(UInt32(low >> 32)), Hex.digits(UInt32(truncatingIfNeeded: low)))
    output.append(digits: words.0, 8)
    output.append(ASCII.minus)
    output.append(digits: words.1, 4)
    output.append(ASCII.minus)
    output.append(digits: words.1 << 32, 4)
    output.append(ASCII.minus)
    output.append(digits: others.0, 4)
    output.append(ASCII.minus)
    output.append(digits: others.0 << 32, 4)
    output.append(digits: others.1, 8)
  }

  /// The canonical text. For logs, not for the hot path.
  package var text: String {
    var bytes: [UInt8] = []
    write(to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
  }

  private static func isHyphen(_ index: Int) -> Bool {
    index == 8 || index == 13 || index == 18 || index == 23
  }

  /// The version-5 UUID (RFC 9562) of a name: the first 128 bits of SHA-1 over namespace and name, six of them
  /// replaced.
  package static func version5(namespace: UUIDValue, name: Span<UInt8>) -> UUIDValue {
    var hash = SHA1()
    hash.update(word: namespace.high)
    hash.update(word: namespace.low)
    hash.update(name)
    return UUIDValue(version5Of: &hash)
  }

  /// A version-4 UUID (RFC 9562): random bits, six of them replaced.
  package static func version4(_ random: inout some RandomNumberGenerator) -> UUIDValue {
    UUIDValue(
      high: random.next() & 0xFFFF_FFFF_FFFF_0FFF | 0x4000,
      low: random.next() & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
  }

  init(version5Of hash: inout SHA1) {
    let words = hash.finish()
    self.init(
      high: (UInt64(words.0) << 32 | UInt64(words.1)) & 0xFFFF_FFFF_FFFF_0FFF | 0x5000,
      low: (UInt64(words.2) << 32 | UInt64(words.3)) & 0x3FFF_FFFF_FFFF_FFFF | 0x8000_0000_0000_0000)
  }
}

extension OutputSpan<UInt8> {
  /// The first digits of a word.
  @inline(__always)
  fileprivate mutating func append(digits word: UInt64, _ count: Int) {
    for place in 0..<count { append(UInt8(truncatingIfNeeded: word >> UInt64(56 &- 8 &* place))) }
  }
}
