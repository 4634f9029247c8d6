import PushCore
import Testing

struct ByteHashTests {
  /// Tokens and channels may have a structure: those that differ in one byte anywhere are different.
  @Test(arguments: [1, 7, 8, 9, 24, 64, 200]) func everyByteCounts(_ count: Int) {
    let bytes = Array(repeating: UInt8(ascii: "0"), count: count)
    var hashes: Set<UInt64> = [ByteHash.hash(bytes.span)]
    for index in bytes.indices {
      var other = bytes
      other[index] = UInt8(ascii: "1")
      hashes.insert(ByteHash.hash(other.span))
    }
    #expect(hashes.count == count + 1)
    #expect(ByteHash.hash(bytes.span) == ByteHash.hash(Array(bytes).span))
  }
}
