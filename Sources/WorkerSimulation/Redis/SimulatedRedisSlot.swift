/// A key's slot, by the specification of Redis Cluster: CRC16-CCITT (XMODEM) of the key, or of its hash tag.
package enum SimulatedRedisSlot {
  package static let count = 16_384

  package static func of(_ key: [UInt8]) -> Int {
    var range = 0..<key.count
    if let open = key.firstIndex(of: UInt8(ascii: "{")),
      let close = key[(open + 1)...].firstIndex(of: UInt8(ascii: "}")), close > open + 1
    {
      range = open + 1..<close
    }
    var remainder: UInt32 = 0
    for index in range {
      remainder ^= UInt32(key[index]) << 8
      for _ in 0..<8 { remainder = remainder & 0x8000 != 0 ? (remainder << 1 ^ 0x1021) & 0xFFFF : remainder << 1 }
    }
    return Int(remainder) % count
  }
}
