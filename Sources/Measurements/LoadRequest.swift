import PushCore

/// A request to a gateway, and the only answer that it may get.
struct LoadRequest {
  /// As it goes over the wire.
  let bytes: [UInt8]
  let status: Int
  let answer: String

  private init(_ head: String, _ body: [UInt8], status: Int, answer: String) {
    bytes = Array(head.utf8) + body
    self.status = status
    self.answer = answer
  }

  /// `GET` of a probe that answers `ok`.
  init(probe path: String) {
    self.init("GET \(path) HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", [], status: 200, answer: "ok\n")
  }

  /// One job, or several as JSON Lines, whose bodies are `SampleJobs` of these numbers.
  init(jobs numbers: Range<Int>, asLines: Bool, key: String) {
    let bodies = numbers.map(SampleJobs.body)
    let body = Array(bodies.map { asLines ? $0 + [UInt8(ascii: "\n")] : $0 }.joined())
    let ids = numbers.map(SampleJobs.id)
    let answer =
      asLines
      ? ids.enumerated().map { "{\"index\":\($0.offset),\"status\":202,\"id\":\"\($0.element)\"}\n" }.joined()
      : ids.map { "{\"id\":\"\($0)\"}" }.joined()
    self.init(
      """
      POST /v1/jobs HTTP/1.1\r
      Host: 127.0.0.1\r
      Authorization: Bearer \(key)\r
      Content-Type: application/\(asLines ? "x-ndjson" : "json")\r
      Content-Length: \(body.count)\r
      \r

      """, body, status: 202, answer: answer)
  }
}
