/// A minimal HTTP/1.1 client: one request, one answer, for admin and control ports on 127.0.0.1.
import Glibc

package enum LoopbackHTTP {
  package struct Answer: Sendable {
    package let status: Int
    /// By their names in lower case.
    package let headers: [String: String]
    package let body: String
  }

  /// Sends a request and reads the answer to its end, after a pause; nil if nothing listens or no complete answer came in
  /// time.
  package static func request(
    _ method: String, _ path: String, port: UInt16, headers: [String] = [], body: String = "",
    timeoutMilliseconds: Int = 5_000, pauseMilliseconds: UInt32 = 0
  ) -> Answer? {
    let head =
      "\(method) \(path) HTTP/1.1\r\nHost: 127.0.0.1:\(port)\r\nConnection: close\r\n"
      + headers.map { "\($0)\r\n" }.joined() + "Content-Length: \(body.utf8.count)\r\n\r\n"
    let question = Array((head + body).utf8)
    let bytes = LoopbackPort.withConnection(to: port, timeoutMilliseconds: timeoutMilliseconds) { descriptor in
      exchange(question, on: descriptor, pauseMilliseconds)
    }
    return bytes.flatMap { $0 }.flatMap(parse)
  }

  private static func exchange(_ question: [UInt8], on descriptor: Int32, _ pauseMilliseconds: UInt32) -> [UInt8]? {
    guard unsafe send(descriptor, question, question.count, Int32(MSG_NOSIGNAL)) == question.count else { return nil }
    if pauseMilliseconds > 0 { usleep(pauseMilliseconds * 1000) }
    var answer: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 65_536)
    while true {
      let count = unsafe recv(descriptor, &chunk, chunk.count, 0)
      if count < 0 { return nil }
      if count == 0 { return answer }
      answer += chunk[..<count]
    }
  }

  private static func parse(_ bytes: [UInt8]) -> Answer? {
    // By bytes: in a String, CR LF is one character.
    let end = Array("\r\n\r\n".utf8)
    guard let start = bytes.indices.first(where: { bytes[$0...].starts(with: end) }) else { return nil }
    let lines = String(decoding: bytes[..<start], as: UTF8.self).split(separator: "\r\n")
    let words = lines.first?.split(separator: " ", maxSplits: 2) ?? []
    guard words.count >= 2, let status = Int(words[1]) else { return nil }
    var headers: [String: String] = [:]
    for line in lines.dropFirst() {
      guard let colon = line.firstIndex(of: ":") else { return nil }
      headers[line[..<colon].lowercased()] = line[line.index(after: colon)...].drop { $0 == " " }.description
    }
    return Answer(
      status: status, headers: headers, body: String(decoding: bytes[(start + end.count)...], as: UTF8.self))
  }
}
