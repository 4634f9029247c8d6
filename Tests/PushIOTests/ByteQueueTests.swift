import PushIO
import Testing

@Suite("ByteQueue")
struct ByteQueueTests {
  @Test func keepsOrderThroughGrowthAndCompaction() {
    var queue = ByteQueue()
    let source = patternBytes(100_000)
    var written = 0
    var read = 0
    var step = 1
    while read < source.count {
      let more = min(step * 7 % 5000 + 1, source.count - written)
      queue.append(Array(source[written..<written + more]).span)
      written += more
      let less = min(step * 11 % 4000 + 1, queue.count)
      let isEqual = queue.withBytes { bytes in (0..<less).allSatisfy { bytes[$0] == source[read + $0] } }
      #expect(isEqual)
      queue.consume(less)
      read += less
      step += 1
    }
    let count = queue.count
    #expect(count == 0)
  }

  @Test func integersAreBigEndianAndReplaceable() {
    var queue = ByteQueue()
    queue.append(UInt8(0xAA))
    queue.appendBigEndian(UInt32(1))
    queue.appendBigEndian(UInt16(0x0203))
    queue.consume(1)
    queue.replaceBigEndian(0x0405_0607, at: 0)
    let bytes = queue.withBytes { bytes in bytes.indices.map { bytes[$0] } }
    #expect(bytes == [4, 5, 6, 7, 2, 3])
  }

  @Test func memoryIsGivenBackWhereNothingWaits() {
    var queue = ByteQueue()
    queue.releaseMemory()
    queue.append(patternBytes(5000).span)
    queue.consume(4990)
    queue.releaseMemory()
    let kept = queue.withBytes { bytes in bytes.indices.map { bytes[$0] } }
    #expect(kept == Array(patternBytes(5000)[4990...]))
    queue.consume(10)
    queue.releaseMemory()
    let isEmpty = queue.isEmpty
    #expect(isEmpty)
    queue.append(patternBytes(3000).span)
    let again = queue.withBytes { bytes in bytes.indices.map { bytes[$0] } }
    #expect(again == patternBytes(3000))
  }

  @Test func textsAreAppendedAsUTF8() {
    var queue = ByteQueue()
    queue.append("é" as StaticString)
    queue.append(String("ß"))
    let bytes = queue.withBytes { bytes in bytes.indices.map { bytes[$0] } }
    #expect(bytes == Array("éß".utf8))
    queue.removeAll()
    let count = queue.count
    #expect(count == 0)
  }
}
