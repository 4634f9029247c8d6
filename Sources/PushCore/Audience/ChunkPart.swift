/// A set's part in a chunk, as the registry stores it.
package struct ChunkPart: Hashable, Sendable {
  enum Form: Hashable, Sendable {
    case none
    /// Places, ascending, two bytes each, little-endian.
    case list([UInt8])
    case bitmap([UInt8])
  }

  let form: Form

  /// The set has no member in the chunk.
  package static let none = ChunkPart(form: .none)

  private init(form: Form) { self.form = form }

  /// A large set's value in Redis. nil: neither a list nor a bitmap of a chunk.
  package init?(value bytes: [UInt8]) {
    if bytes.count == OrdinalChunk.bitmapBytes {
      form = .bitmap(bytes)
      return
    }
    guard bytes.count % 2 == 0, bytes.count / 2 <= OrdinalChunk.listMaximum else { return nil }
    var least = 0
    for offset in stride(from: 0, to: bytes.count, by: 2) {
      guard let place = ChunkPart.place(bytes.span, at: offset), least..<OrdinalChunk.count ~= Int(place) else {
        return nil
      }
      least = Int(place) + 1
    }
    form = bytes.isEmpty ? .none : .list(bytes)
  }

  /// The ordinals of a small set that are in the chunk.
  /// - Parameter ordinals: ascending.
  package init(ordinals: [UInt32], chunk: Int) {
    var bytes: [UInt8] = []
    for ordinal in ordinals where OrdinalChunk.index(of: ordinal) == chunk {
      let place = OrdinalChunk.place(of: ordinal)
      bytes.append(UInt8(truncatingIfNeeded: place))
      bytes.append(UInt8(truncatingIfNeeded: place >> 8))
    }
    form = bytes.isEmpty ? .none : .list(bytes)
  }

  /// The set has no member in the chunk.
  package var isEmpty: Bool { if case .none = form { true } else { false } }

  /// The next bitmap word in which the list has places, and a mask of those places; nil: the end of the list.
  @inline(__always)
  static func nextWord(_ bytes: Span<UInt8>, _ offset: inout Int) -> (index: Int, mask: UInt64)? {
    guard let first = place(bytes, at: offset) else { return nil }
    let index = Int(first >> 6)
    var mask: UInt64 = 0
    while let place = place(bytes, at: offset), Int(place >> 6) == index {
      mask |= ChunkBitmap.mask(place)
      offset &+= 2
    }
    return (index, mask)
  }

  @inline(__always)
  private static func place(_ bytes: Span<UInt8>, at offset: Int) -> UInt16? {
    guard offset &+ 1 < bytes.count else { return nil }
    return UInt16(bytes[offset]) | UInt16(bytes[offset &+ 1]) << 8
  }
}
