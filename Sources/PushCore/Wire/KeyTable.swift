/// Finds a key in a fixed set without comparing it with each: it reads the key as three words and needs one multiplication and one
/// comparison. Keys are at most 24 bytes.
struct KeyTable: Sendable {
  private struct Entry {
    var low: UInt64
    var middle: UInt64
    var high: UInt64
    var count: UInt64
  }

  /// In the given order: a key's index is its position here.
  let names: [String]
  private var entries: [Entry] = []
  /// 256 places: an index into `entries`, or `empty`.
  private var places: [UInt8]
  private var multiplier: UInt64 = 0
  private static let empty = UInt8.max

  init(_ names: [String]) {
    precondition(names.count < 64, "a key table is for a few keys")
    self.names = names
    places = []
    for name in names {
      let bytes = name.utf8.span
      precondition(bytes.count <= 24, "a key of a key table is at most 24 bytes")
      entries.append(KeyTable.entry(bytes, from: 0, count: bytes.count))
    }
    // Tries multipliers until each key has a place of its own. The sequence is fixed, so the result is always the same.
    var random = SeededRandom(seed: 1)
    repeat { multiplier = random.next() | 1 } while !fillPlaces()
  }

  /// The index of the key, or nil.
  @inline(__always)
  func index(_ bytes: Span<UInt8>, _ range: ByteRange) -> Int? {
    guard range.count <= 24 else { return nil }
    let key = KeyTable.entry(bytes, from: Int(range.start), count: Int(range.count))
    let place = places[place(key)]
    guard place != KeyTable.empty else { return nil }
    let entry = entries[Int(place)]
    guard entry.low == key.low, entry.middle == key.middle, entry.high == key.high, entry.count == key.count else {
      return nil
    }
    return Int(place)
  }

  /// The index of a scanned key, after its escapes are decoded.
  @inline(__always)
  func index(_ bytes: Span<UInt8>, _ key: JSONString) -> Int? {
    if key.hasEscapes {
      let text = JSONEscape.unescaped(key.range, of: bytes)
      return index(text.span, ByteRange(start: 0, count: text.count))
    }
    return index(bytes, key.range)
  }

  @inline(__always)
  private static func entry(_ bytes: Span<UInt8>, from start: Int, count: Int) -> Entry {
    Entry(
      low: bytes.word(at: start, count: count), middle: bytes.word(at: start &+ 8, count: count &- 8),
      high: bytes.word(at: start &+ 16, count: count &- 16), count: UInt64(count))
  }

  @inline(__always)
  private func place(_ key: Entry) -> Int {
    Int(truncatingIfNeeded: ((key.low ^ key.middle &* 3 ^ key.high &* 5 ^ key.count) &* multiplier) >> 56)
  }

  private mutating func fillPlaces() -> Bool {
    places = Array(repeating: KeyTable.empty, count: 256)
    for (index, entry) in entries.enumerated() {
      let place = place(entry)
      guard places[place] == KeyTable.empty else { return false }
      places[place] = UInt8(index)
    }
    return true
  }
}
