import CHiredis
import PushCore
import Testing

@testable import PushIO

/// RESP from bytes: every type, every chunking, bounds, and invalid bytes.
struct RedisReaderTests {
  /// Every reply in the bytes, fed in chunks; nil if the reader refused.
  private func read(
    _ bytes: [UInt8], chunk: (Int) -> Int = { $0 }, limits: RedisReader.Limits = RedisReader.Limits()
  ) -> (replies: [String], failure: String?) {
    let reader = RedisReader(limits: limits)
    var inbound = ByteQueue()
    var replies: [String] = []
    var position = 0
    do {
      while true {
        while try reader.nextReply(from: &inbound) {
          var index = 0
          replies.append(describe(reader, &index))
          #expect(index == reader.valueCount, "every recorded value is part of the tree")
        }
        if position == bytes.count { return (replies, nil) }
        let count = min(max(1, chunk(bytes.count - position)), bytes.count - position)
        inbound.append(bytes.span.extracting(position..<position + count))
        position += count
      }
    } catch {
      #expect(!error.detail.isEmpty)
      do {
        _ = try reader.nextReply(from: &inbound)
        Issue.record("a reader that failed goes on")
      } catch {}
      return (replies, error.detail)
    }
  }

  private func describe(_ reader: RedisReader, _ index: inout Int) -> String {
    guard index < reader.valueCount else { return "missing" }
    let value = reader.value(at: index)
    index += 1
    let text = reader.withText(of: value) { span in
      var bytes: [UInt8] = []
      for position in span.indices { bytes.append(span[position]) }
      return String(decoding: bytes, as: UTF8.self)
    }
    switch value.kind {
    case .integer: return "\(value.integer)"
    case .bulk: return "$\(text)"
    case .status: return "+\(text)"
    case .error: return "-\(text)"
    case .null: return "null"
    case .array:
      var items: [String] = []
      for _ in 0..<value.integer { items.append(describe(reader, &index)) }
      return "[\(items.joined(separator: " "))]"
    }
  }

  /// hiredis may find a value of a kind that no function records: then the reply lacks it.
  @Test func aReplyWithoutItsValues_isNotWhole() {
    let recorder = RedisReplyRecorder(limits: RedisReader.Limits())
    #expect(!recorder.isWhole, "no head")
    #expect(recorder.record(.array, integer: 2) && recorder.record(.integer))
    #expect(!recorder.isWhole, "one of two elements")
    #expect(recorder.record(.array, integer: 0))
    #expect(recorder.isWhole)
    recorder.reset()
    #expect(!recorder.isWhole && recorder.record(.null) && recorder.isWhole)
    #expect(!recorder.record(.array, integer: -1), "no array has a negative count")
  }

  /// As with a newer hiredis, which knows a kind of value that has no function here.
  @Test func aValueThatNobodyRecorded_isAnError() throws {
    for (text, readsNulls) in [("$-1\r\n", false), ("*2\r\n:1\r\n$-1\r\n", false), ("$-1\r\n", true)] {
      var functions = RedisReplyRecorder.functions()
      if !readsNulls { unsafe functions.createNil = nil }
      let reader = RedisReader(limits: RedisReader.Limits(), functions: functions)
      var inbound = ByteQueue()
      inbound.append(Array("\(text)+OK\r\n".utf8).span)
      if readsNulls {
        #expect(try reader.nextReply(from: &inbound))
      } else {
        for _ in 0..<2 {
          let error = #expect(throws: RedisReaderError.self) { try reader.nextReply(from: &inbound) }
          #expect(error?.detail == "a reply of a kind that Herald does not read")
        }
      }
    }
  }

  private let sample = Array(
    "+OK\r\n:42\r\n:-9223372036854775808\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n-ERR no\r\n*0\r\n*-1\r\n*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n+x\r\n:0\r\n"
      .utf8)
  private let expected = [
    "+OK", "42", "-9223372036854775808", "$hello", "$", "null", "-ERR no", "[]", "null", "[1 [$a null] +x]", "0",
  ]

  @Test func everyType() {
    let result = read(sample)
    #expect(result.replies == expected)
    #expect(result.failure == nil)
  }

  @Test func everyChunking() {
    for count in 1...sample.count {
      let result = read(sample, chunk: { _ in count })
      #expect(result.replies == expected && result.failure == nil, "chunks of \(count)")
    }
    var random = SeededRandom(seed: 5)
    for _ in 0..<500 {
      let result = read(sample, chunk: { Int.random(in: 1...$0, using: &random) })
      #expect(result.replies == expected && result.failure == nil)
    }
  }

  @Test func manyRepliesInOneRead() {
    var bytes: [UInt8] = []
    for number in 0..<20_000 { bytes += Array(":\(number)\r\n$3\r\nabc\r\n".utf8) }
    let result = read(bytes)
    #expect(result.replies.count == 40_000)
    #expect(result.replies[39_998] == "19999")
  }

  @Test func boundsAreErrors() {
    var limits = RedisReader.Limits()
    limits.bytesMaximum = 64
    limits.valuesMaximum = 8
    func fails(_ text: String) -> Bool { read(Array(text.utf8), limits: limits).failure != nil }
    #expect(fails("$65\r\n" + String(repeating: "x", count: 65) + "\r\n"))
    #expect(!fails("$50\r\n" + String(repeating: "x", count: 50) + "\r\n"))
    #expect(fails("$4000000000\r\n" + String(repeating: "x", count: 100)), "promised more than is ever kept")
    #expect(fails("+" + String(repeating: "x", count: 100)), "a line without an end")
    #expect(fails("*9\r\n"))
    #expect(fails("*2147483647\r\n"))
    #expect(fails("*7\r\n" + String(repeating: "*1\r\n:1\r\n", count: 7)), "values of nested arrays count")
    #expect(fails(String(repeating: "*1\r\n", count: 12) + ":1\r\n"), "nested too deep")
    #expect(!fails(String(repeating: "*1\r\n", count: 6) + ":1\r\n"))
  }

  @Test(arguments: [
    "x\r\n", "HTTP/1.1 400 Bad Request\r\n", "$-2\r\n", "$99999999999999999999999\r\n", "*-2\r\n",
    "*99999999999999999999\r\n", "%1\r\n+a\r\n:1\r\n", "\r\n\r\n", "\0\0\0\0",
  ])
  func whatIsNoReplyIsAnError(text: String) {
    #expect(read(Array(text.utf8)).failure != nil)
  }

  @Test(arguments: 1...8 as ClosedRange<UInt64>)
  func mutatedBytesNeverTrap(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var limits = RedisReader.Limits()
    limits.bytesMaximum = 4096
    limits.valuesMaximum = 64
    var failures = 0
    for _ in 0..<3000 {
      var bytes = sample
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        let position = Int.random(in: 0..<bytes.count, using: &random)
        switch random.next() % 4 {
        case 0: bytes[position] = UInt8(truncatingIfNeeded: random.next())
        case 1: bytes.remove(at: position)
        case 2: bytes.insert(contentsOf: Array("*9$:+-\r\n".utf8).shuffled(using: &random).prefix(3), at: position)
        default: bytes[position] = UInt8(ascii: "0") + UInt8(random.next() % 10)
        }
        if bytes.isEmpty { bytes = sample }
      }
      let whole = read(bytes, limits: limits)
      let chunked = read(bytes, chunk: { Int.random(in: 1...min(40, $0), using: &random) }, limits: limits)
      #expect(whole.replies == chunked.replies, "seed \(seed)")
      #expect((whole.failure == nil) == (chunked.failure == nil), "seed \(seed)")
      if whole.failure != nil { failures += 1 }
    }
    #expect(failures > 100, "the mutations reach the error paths")
  }
}
