import PushCore
import TestSupport
import Testing

/// Bitmaps of chunks against sets of places.
@Suite struct ChunkBitmapTests {
  private func bitmap(_ places: Set<UInt16>) -> ChunkBitmap {
    var bitmap = ChunkBitmap()
    for place in places { bitmap.insert(place) }
    return bitmap
  }

  private func places(_ bitmap: ChunkBitmap) -> Set<UInt16> {
    var ordinals: [UInt32] = []
    _ = bitmap.appendOrdinals(chunk: 0, to: &ordinals)
    return Set(ordinals.map(UInt16.init))
  }

  private func randomPlaces(_ random: inout SeededRandom) -> Set<UInt16> {
    let count = [0, 1, 5, 512, 513, 4000].randomElement(using: &random) ?? 0
    let range = Bool.random(using: &random) ? 0..<OrdinalChunk.count : 0..<700
    var places: Set<UInt16> = []
    for _ in 0..<count { places.insert(UInt16(Int.random(in: range, using: &random))) }
    return places
  }

  @Test func operationsAreThoseOfSets() throws {
    var random = SeededRandom(seed: 4)
    for _ in 0..<60 {
      let (left, right, third) = (randomPlaces(&random), randomPlaces(&random), randomPlaces(&random))
      let part = try #require(ChunkPart(value: FilterWorld.value(right.sorted())))
      let other = bitmap(third)
      func result(_ change: (inout ChunkBitmap) -> Void) -> Set<UInt16> {
        var changed = bitmap(left)
        change(&changed)
        return places(changed)
      }
      #expect(result { _ in } == left)
      #expect(result { $0.formUnion(part) } == left.union(right))
      #expect(result { $0.formIntersection(part) } == left.intersection(right))
      #expect(result { $0.subtract(part) } == left.subtracting(right))
      #expect(result { $0.formUnion(other) } == left.union(third))
      #expect(result { $0.formIntersection(other) } == left.intersection(third))
      #expect(result { $0.subtract(other) } == left.subtracting(third))
      #expect(result { $0.formUnion(other, in: part) } == left.union(third.intersection(right)))
      #expect(result { $0.formUnion(other, notIn: part) } == left.union(third.subtracting(right)))
      #expect(result { $0.removeAll() } == [])
      #expect(bitmap(left).count == left.count && bitmap(left).isEmpty == left.isEmpty)
      #expect(
        left.allSatisfy(bitmap(left).contains) && third.subtracting(left).allSatisfy { !bitmap(left).contains($0) })
    }
  }

  /// Pages of any size are the whole, in order, without gaps and repeats.
  @Test func aCursorGoesOnWhereItStood() {
    var random = SeededRandom(seed: 5)
    for _ in 0..<40 {
      let places = randomPlaces(&random)
      let chunk = Int.random(in: 0..<4, using: &random)
      let limit = Int.random(in: 1...900, using: &random)
      var ordinals: [UInt32] = []
      var cursor: UInt32? = 0
      while let from = cursor {
        let before = ordinals.count
        cursor = bitmap(places).appendOrdinals(chunk: chunk, from: from, limit: limit, to: &ordinals)
        #expect(cursor == nil || ordinals.count - before == limit)
      }
      #expect(ordinals == places.sorted().map { UInt32(chunk * OrdinalChunk.count) + UInt32($0) })
    }
    #expect(bitmap([3]).next(from: OrdinalChunk.count) == nil && bitmap([65_279]).next(from: 0) == 65_279)
  }

  @Test func whatIsNoPartOfAChunkIsRefused() {
    #expect(ChunkPart(value: [1]) == nil)
    #expect(ChunkPart(value: [1, 0, 1, 0]) == nil, "twice")
    #expect(ChunkPart(value: [2, 0, 1, 0]) == nil, "not ascending")
    #expect(ChunkPart(value: [0x00, 0xFF]) == nil, "place 65,280")
    #expect(ChunkPart(value: [0xFF, 0xFE]) != nil, "place 65,279")
    #expect(ChunkPart(value: Array(repeating: 0, count: 1026)) == nil)
    #expect(ChunkPart(value: Array(repeating: 0, count: OrdinalChunk.bitmapBytes - 2)) == nil)
    #expect(ChunkPart(value: []) == ChunkPart.none)
  }

  @Test func aSmallSetsPartIsWhatLiesInTheChunk() {
    let ordinals: [UInt32] = [1, 65_279, 65_280, 70_000, 200_000]
    var bitmap = ChunkBitmap()
    bitmap.formUnion(ChunkPart(ordinals: ordinals, chunk: 1))
    #expect(places(bitmap) == [0, 4_720])
    #expect(ChunkPart(ordinals: ordinals, chunk: 2) == ChunkPart.none)
  }
}
