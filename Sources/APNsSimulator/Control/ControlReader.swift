import PushIO

/// Reads HTTP/1.1 requests from bytes: request line, `Content-Length`, body. Its limits are small, because it is for manual use and tests.
struct ControlReader {
  enum Outcome {
    case incomplete
    case request(ControlRequest, keepsAlive: Bool)
    case refused(status: Int, String)
  }

  private static let headBytesMaximum = 16 * 1024
  private static let bodyBytesMaximum = 512 * 1024

  /// Takes one request from the front of `queue`, if it is complete.
  static func take(from queue: inout ByteQueue) -> Outcome {
    let bytes = queue.withBytes { span in
      var copy: [UInt8] = []
      for index in 0..<min(span.count, headBytesMaximum + bodyBytesMaximum) { copy.append(span[index]) }
      return copy
    }
    guard let headCount = endOfHead(bytes) else {
      return bytes.count > headBytesMaximum ? .refused(status: 431, "the request's head is too long") : .incomplete
    }
    let lines = String(decoding: bytes[..<headCount], as: UTF8.self).split(separator: "\r\n")
    let words = lines.first?.split(separator: " ") ?? []
    guard words.count == 3, words[2].hasPrefix("HTTP/1.") else {
      return .refused(status: 400, "not an HTTP/1.1 request")
    }
    var bodyCount = 0
    var keepsAlive = words[2] == "HTTP/1.1"
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { continue }
      let value = String(line[line.index(after: colon)...]).trimmed
      switch line[..<colon].lowercased() {
      case "content-length":
        guard let count = Int(value), (0...bodyBytesMaximum).contains(count) else {
          return .refused(status: 413, "a body of at most 512 KiB, with its length")
        }
        bodyCount = count
      case "transfer-encoding":
        return .refused(status: 411, "a body needs its Content-Length")
      case "connection":
        keepsAlive = value.lowercased() != "close"
      default: break
      }
    }
    guard bytes.count >= headCount + bodyCount else { return .incomplete }
    queue.consume(headCount + bodyCount)
    let body = String(decoding: bytes[headCount..<(headCount + bodyCount)], as: UTF8.self)
    return .request(
      ControlRequest(method: String(words[0]), path: String(words[1]), body: body), keepsAlive: keepsAlive)
  }

  /// The length of the head with its empty line; nil: incomplete.
  private static func endOfHead(_ bytes: [UInt8]) -> Int? {
    guard bytes.count >= 4 else { return nil }
    for end in 4...bytes.count where bytes[end - 1] == 10 && bytes[end - 2] == 13 && bytes[end - 3] == 10 {
      return end
    }
    return nil
  }
}
