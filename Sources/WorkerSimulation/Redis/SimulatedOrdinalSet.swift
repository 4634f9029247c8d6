/// A chunk of a large set, in the documented format: an ascending list of two-byte positions, or a bitmap of 8,160 bytes.
struct SimulatedOrdinalSet {
  private(set) var places: Set<Int> = []
  private(set) var isBitmap = false

  static let bitmapBytes = 8160
  private static let listMaximum = 512
  /// After a removal, a bitmap with at most this many positions becomes a list again.
  private static let shrinkMaximum = 256

  init(_ value: [UInt8]) {
    isBitmap = value.count == SimulatedOrdinalSet.bitmapBytes
    if isBitmap {
      for place in 0..<value.count * 8 where value[place / 8] & (128 >> UInt8(place % 8)) != 0 { places.insert(place) }
    } else {
      for at in stride(from: 0, to: value.count - 1, by: 2) { places.insert(Int(value[at]) | Int(value[at + 1]) << 8) }
    }
  }

  mutating func set(_ place: Int, isMember: Bool) {
    if isMember { places.insert(place) } else { places.remove(place) }
  }

  /// Turns a list that grew too long into a bitmap.
  mutating func grow() {
    if places.count > SimulatedOrdinalSet.listMaximum { isBitmap = true }
  }

  mutating func shrink() {
    if places.count <= SimulatedOrdinalSet.shrinkMaximum { isBitmap = false }
  }

  /// Empty: the chunk has no members.
  var value: [UInt8] {
    guard isBitmap else {
      return places.sorted().flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
    var bytes = [UInt8](repeating: 0, count: SimulatedOrdinalSet.bitmapBytes)
    for place in places { bytes[place / 8] |= 128 >> UInt8(place % 8) }
    return bytes
  }
}
