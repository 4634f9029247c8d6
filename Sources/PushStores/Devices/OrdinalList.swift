import PushCore

/// Reads the two encodings of ordinals in sets.
enum OrdinalList {
  /// One ordinal of a small set.
  static func ordinal(_ bytes: [UInt8], _ index: Int) -> UInt32 {
    (0..<4).reduce(0) { $0 | UInt32(bytes[index * 4 + $1]) << UInt32($1 * 8) }
  }

  /// A small set.
  static func all(_ bytes: [UInt8]) -> [UInt32] { (0..<bytes.count / 4).map { ordinal(bytes, $0) } }

  /// A large set's part in a chunk, ascending. A place beyond the chunk is left out: the registry writes none.
  static func all(_ bytes: [UInt8], inChunk chunk: Int) -> [UInt32] {
    guard 0..<OrdinalChunk.chunksMaximum ~= chunk else { return [] }
    let base = UInt32(chunk * OrdinalChunk.count)
    guard bytes.count == OrdinalChunk.bitmapBytes else {
      return (0..<bytes.count / 2).compactMap { index in
        let place = UInt32(bytes[index * 2]) | UInt32(bytes[index * 2 + 1]) << 8
        return place < OrdinalChunk.count ? base + place : nil
      }
    }
    var ordinals: [UInt32] = []
    for (index, byte) in bytes.enumerated() where byte != 0 {
      for bit in 0..<8 where byte & (128 >> UInt8(bit)) != 0 { ordinals.append(base + UInt32(index * 8 + bit)) }
    }
    return ordinals
  }
}
