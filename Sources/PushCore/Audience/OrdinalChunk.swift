/// How sets of devices are split into chunks. A device has an ordinal in its app and environment, from 0; a chunk is a
/// fixed range of ordinals. A set's part in a chunk is one value in one of two encodings, distinguished by length.
package enum OrdinalChunk {
  /// Ordinals in a chunk. 8,160 bytes of bitmap with Redis' header fit in an 8 KiB block; 65,536 ordinals would take 10
  /// KiB.
  package static let count = 65_280
  /// Bytes of a bitmap: bit `i` is ordinal `i` of the chunk, the most significant bit of a byte first, as `SETBIT` counts.
  package static let bitmapBytes = count / 8
  /// A set with at most this many ordinals in a chunk is a list there: ascending, two bytes each, little-endian. With
  /// more it is a bitmap.
  package static let listMaximum = 512

  /// Chunks whose ordinals all fit in 32 bits. No registry has more; Redis may say so all the same.
  package static let chunksMaximum = Int(UInt32.max) / count
  package static let ordinalsMaximum = chunksMaximum * count

  /// The chunk of an ordinal.
  package static func index(of ordinal: UInt32) -> Int { Int(ordinal) / count }
  /// An ordinal's place in its chunk.
  package static func place(of ordinal: UInt32) -> UInt16 { UInt16(Int(ordinal) % count) }
}
