/// A set of ordinals in a chunk, one bit each.
///
/// Words hold the bytes of a bitmap in Redis' order, the first byte lowest, so that no byte swaps are needed to combine
/// them.
package struct ChunkBitmap: Hashable, Sendable {
  package static let wordCount = OrdinalChunk.bitmapBytes / 8

  private var words: [UInt64]

  package init() {
    words = Array(repeating: 0, count: ChunkBitmap.wordCount)
  }

  // MARK: - Places

  package var isEmpty: Bool { words.allSatisfy { $0 == 0 } }

  package var count: Int {
    var sum = 0
    for word in words { sum &+= word.nonzeroBitCount }
    return sum
  }

  package func contains(_ place: UInt16) -> Bool {
    words[Int(place >> 6)] & ChunkBitmap.mask(place) != 0
  }

  /// - Parameter place: below `OrdinalChunk.count`.
  package mutating func insert(_ place: UInt16) {
    words[Int(place >> 6)] |= ChunkBitmap.mask(place)
  }

  package mutating func removeAll() {
    var words = words.mutableSpan
    for index in words.indices { words[index] = 0 }
  }

  /// The first place in the set at or after this one.
  package func next(from place: Int) -> Int? {
    guard place < OrdinalChunk.count else { return nil }
    var index = place >> 6
    // After the byte swap, the lowest place is the highest bit.
    var word = words[index].byteSwapped & UInt64.max >> UInt64(place & 63)
    while word == 0 {
      index += 1
      guard index < words.count else { return nil }
      word = words[index].byteSwapped
    }
    return index << 6 + word.leadingZeroBitCount
  }

  /// Appends ordinals, ascending.
  /// - Parameters:
  ///   - chunk: the index of this chunk.
  ///   - cursor: the smallest ordinal to take.
  ///   - limit: maximum number to take.
  /// - Returns: the ordinal to continue from; nil: the chunk has no more.
  package func appendOrdinals(
    chunk: Int, from cursor: UInt32 = 0, limit: Int = .max, to ordinals: inout [UInt32]
  ) -> UInt32? {
    let start = chunk * OrdinalChunk.count
    var place = max(0, Int(cursor) - start)
    var taken = 0
    while let found = next(from: place) {
      let ordinal = UInt32(start + found)
      guard taken < limit else { return ordinal }
      ordinals.append(ordinal)
      taken += 1
      place = found + 1
    }
    return nil
  }

  // MARK: - Together with others

  package mutating func formUnion(_ other: ChunkBitmap) {
    var words = words.mutableSpan
    let others = other.words.span
    for index in words.indices { words[index] |= others[index] }
  }

  package mutating func formIntersection(_ other: ChunkBitmap) {
    var words = words.mutableSpan
    let others = other.words.span
    for index in words.indices { words[index] &= others[index] }
  }

  package mutating func subtract(_ other: ChunkBitmap) {
    var words = words.mutableSpan
    let others = other.words.span
    for index in words.indices { words[index] &= ~others[index] }
  }

  package mutating func formUnion(_ part: ChunkPart) {
    switch part.form {
    case .none: break
    case .list(let bytes):
      var offset = 0
      while let (index, mask) = ChunkPart.nextWord(bytes.span, &offset) { words[index] |= mask }
    case .bitmap(let bytes):
      var words = words.mutableSpan
      let bytes = bytes.span
      for index in words.indices { words[index] |= bytes.word(at: index &* 8) }
    }
  }

  package mutating func formIntersection(_ part: ChunkPart) {
    switch part.form {
    case .none: removeAll()
    case .list(let bytes):
      var offset = 0
      var next = 0
      while let (index, mask) = ChunkPart.nextWord(bytes.span, &offset) {
        for between in next..<index { words[between] = 0 }
        words[index] &= mask
        next = index + 1
      }
      for rest in next..<words.count { words[rest] = 0 }
    case .bitmap(let bytes):
      var words = words.mutableSpan
      let bytes = bytes.span
      for index in words.indices { words[index] &= bytes.word(at: index &* 8) }
    }
  }

  package mutating func subtract(_ part: ChunkPart) {
    switch part.form {
    case .none: break
    case .list(let bytes):
      var offset = 0
      while let (index, mask) = ChunkPart.nextWord(bytes.span, &offset) { words[index] &= ~mask }
    case .bitmap(let bytes):
      var words = words.mutableSpan
      let bytes = bytes.span
      for index in words.indices { words[index] &= ~bytes.word(at: index &* 8) }
    }
  }

  /// Adds the members of `other` that are in the part.
  package mutating func formUnion(_ other: ChunkBitmap, in part: ChunkPart) {
    switch part.form {
    case .none: break
    case .list(let bytes):
      var offset = 0
      while let (index, mask) = ChunkPart.nextWord(bytes.span, &offset) { words[index] |= other.words[index] & mask }
    case .bitmap(let bytes):
      var words = words.mutableSpan
      let others = other.words.span
      let bytes = bytes.span
      for index in words.indices { words[index] |= others[index] & bytes.word(at: index &* 8) }
    }
  }

  /// Adds the members of `other` that are not in the part.
  package mutating func formUnion(_ other: ChunkBitmap, notIn part: ChunkPart) {
    switch part.form {
    case .none: formUnion(other)
    case .list(let bytes):
      var offset = 0
      var next = 0
      while let (index, mask) = ChunkPart.nextWord(bytes.span, &offset) {
        for between in next..<index { words[between] |= other.words[between] }
        words[index] |= other.words[index] & ~mask
        next = index + 1
      }
      for rest in next..<words.count { words[rest] |= other.words[rest] }
    case .bitmap(let bytes):
      var words = words.mutableSpan
      let others = other.words.span
      let bytes = bytes.span
      for index in words.indices { words[index] |= others[index] & ~bytes.word(at: index &* 8) }
    }
  }

  @inline(__always)
  static func mask(_ place: UInt16) -> UInt64 { 1 << UInt64((place & 63) ^ 7) }
}
