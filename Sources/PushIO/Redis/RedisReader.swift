import CHiredis
import PushCore

/// Parses RESP replies: hiredis' reader, with our recorder instead of its reply objects.
///
/// Hostile bytes end in an error: lengths, nesting (seven levels), values and bytes of a reply are bounded.
@safe
package final class RedisReader {
  package struct Limits: Sendable {
    /// Maximum size of one reply's text, bytes; also of an incomplete reply.
    package var bytesMaximum = 1 << 20
    /// Maximum number of a reply's values, including arrays and their elements.
    package var valuesMaximum = 1 << 16

    package init() {}
  }

  /// Maximum passed at once: the reader moves the rest to its front each time.
  private static let feedCount = 16 * 1024

  private let reader: UnsafeMutablePointer<redisReader>
  private let functions: UnsafeMutablePointer<redisReplyObjectFunctions>
  private let recorder: RedisReplyRecorder
  private let limits: Limits
  private var isComplete = false
  private var failure: String?

  package convenience init(limits: Limits = Limits()) {
    self.init(limits: limits, functions: RedisReplyRecorder.functions())
  }

  /// - Parameter recording: hiredis itself stands for what has no function, and nothing of it is recorded.
  init(limits: Limits, functions recording: redisReplyObjectFunctions) {
    self.limits = limits
    recorder = RedisReplyRecorder(limits: limits)
    unsafe functions = .allocate(capacity: 1)
    unsafe functions.initialize(to: recording)
    guard let reader = unsafe redisReaderCreateWithFunctions(functions) else {
      fatalError("no memory for a Redis reader")
    }
    unsafe self.reader = reader
    unsafe reader.pointee.privdata = Unmanaged.passUnretained(recorder).toOpaque()
    // Never frees its buffer: it is bounded, and would be allocated again for every batch.
    unsafe reader.pointee.maxbuf = 0
  }

  deinit {
    unsafe redisReaderFree(reader)
    unsafe functions.deallocate()
  }

  /// Parses the next complete reply; false if more bytes are needed. After an error every call throws it again.
  ///
  /// `values` and `withText` give the reply until the next call.
  package func nextReply(from inbound: inout ByteQueue) throws(RedisReaderError) -> Bool {
    if let failure { throw RedisReaderError(detail: failure) }
    if isComplete {
      isComplete = false
      recorder.reset()
    }
    while true {
      var object: UnsafeMutableRawPointer?
      guard unsafe redisReaderGetReply(reader, &object) == REDIS_OK else { throw fail() }
      if unsafe object != nil {
        // A kind of value that no function recorded.
        guard recorder.isWhole else { throw fail("a reply of a kind that Herald does not read") }
        isComplete = true
        return true
      }
      if unsafe reader.pointee.len - reader.pointee.pos > limits.bytesMaximum {
        throw fail("a reply of more than \(limits.bytesMaximum) bytes")
      }
      if inbound.isEmpty { return false }
      let count = min(inbound.count, RedisReader.feedCount)
      let status = unsafe inbound.withUnsafeBytes { bytes in
        unsafe bytes.withMemoryRebound(to: CChar.self) { unsafe redisReaderFeed(reader, $0.baseAddress, count) }
      }
      guard status == REDIS_OK else { throw fail() }
      inbound.consume(count)
    }
  }

  /// The number of values in the reply; the first one is its head.
  package var valueCount: Int { recorder.values.count }

  package func value(at index: Int) -> RedisValue { recorder.values[index] }

  /// The text of a value of this reply.
  package func withText<Result, Failure: Error>(
    of value: RedisValue, _ body: (Span<UInt8>) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    let bytes = recorder.bytes
    return try body(bytes.span.extracting(value.text.range))
  }

  private func fail(_ detail: String? = nil) -> RedisReaderError {
    let text = unsafe detail ?? recorder.refusal ?? RedisReader.message(reader)
    failure = text
    return RedisReaderError(detail: text)
  }

  private static func message(_ reader: UnsafeMutablePointer<redisReader>) -> String {
    let bytes = unsafe withUnsafeBytes(of: reader.pointee.errstr) { text in
      unsafe Array(text.prefix { $0 != 0 }.map { $0 >= 0x20 && $0 < 0x7F ? $0 : UInt8(ascii: "?") })
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}

/// Why bytes are not replies. Their connection cannot be used any more.
package struct RedisReaderError: Error, Sendable {
  package var detail: String
}
