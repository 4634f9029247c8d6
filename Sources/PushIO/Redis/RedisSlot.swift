/// The slot of a key, one of a cluster's 16,384: CRC16 (XMODEM) of its hash tag.
package enum RedisSlot {
  package static let count = 16_384

  /// The slot of a key: of the text between its first `{` and the next `}` if that is not empty, else of the whole key.
  package static func of(_ key: Span<UInt8>) -> Int {
    var open = 0
    while open < key.count, key[open] != UInt8(ascii: "{") { open += 1 }
    var close = open + 1
    while close < key.count, key[close] != UInt8(ascii: "}") { close += 1 }
    guard close < key.count, close > open + 1 else { return of(tag: key) }
    return of(tag: key.extracting(open + 1..<close))
  }

  /// The slot of a hash tag.
  package static func of(tag: Span<UInt8>) -> Int {
    var crc: UInt16 = 0
    for index in 0..<tag.count { crc = crc << 8 ^ table[Int(crc >> 8 ^ UInt16(tag[index]))] }
    return Int(crc) & (count - 1)
  }

  private static let table: [UInt16] = (0..<256).map { byte in
    var crc = UInt16(byte) << 8
    for _ in 0..<8 { crc = crc & 0x8000 != 0 ? crc << 1 ^ 0x1021 : crc << 1 }
    return crc
  }
}
