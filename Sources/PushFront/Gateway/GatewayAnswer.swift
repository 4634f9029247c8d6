import NIOCore
import NIOHTTP1
import PushCore

/// An HTTP response.
struct GatewayAnswer: Sendable {
  enum Body: Sendable {
    case bytes([UInt8])
    /// Writes parts until the task is cancelled.
    case stream(@Sendable (GatewayExchange) async throws -> Void)
    /// A HEAD asked for the head of a stream.
    case none
  }

  let status: Int
  let body: Body
  /// The connection ends with this answer, because the rest of the body is not read.
  private(set) var isLast = false
  /// The header fields as they are sent, each behind a line break.
  private var fields = ""

  /// Of the body; of a stream, 0.
  var byteCount: Int { if case .bytes(let bytes) = body { bytes.count } else { 0 } }

  /// - Parameters:
  ///   - rate: the state of the key's rate; nil: the key has no rate.
  ///   - allowed: the methods that the path allows.
  init(_ reply: GatewayReply, rate: RequestRate.Answer? = nil, allowed: [String] = []) {
    status = reply.status
    body = .bytes(reply.bytes)
    if !reply.contentType.isEmpty { add("Content-Type", reply.contentType) }
    if let location = reply.location { add("Location", location) }
    if reply.isReplayed { add("Idempotency-Replayed", "true") }
    if let rate { add(rate) }
    if let seconds = reply.retryAfter ?? GatewayAnswer.retryAfter(reply.problem, rate) {
      add("Retry-After", "\(seconds)")
    }
    switch reply.problem {
    case .unauthorized: add("WWW-Authenticate", "Bearer")
    case .notAllowed: add("Allow", allowed.joined(separator: ", "))
    case .tooLarge, .timeout: isLast = true
    case .badRequest, .invalid, .forbidden, .notFound, .conflict, .inProgress, .unsupportedMedia, .reused, .overRate,
      .internalError, .notImplemented, .unavailable, nil:
      break
    }
  }

  /// Events until the client goes or the server stops; nil: only their head.
  init(events: (@Sendable (GatewayExchange) async throws -> Void)?) {
    status = 200
    body = events.map { .stream($0) } ?? .none
    add("Content-Type", "text/event-stream")
  }

  private static func retryAfter(_ problem: Problem.Kind?, _ rate: RequestRate.Answer?) -> Int? {
    switch problem {
    case .unavailable, .inProgress: GatewayLimits.retryAfterSeconds
    case .overRate: rate?.resetSeconds ?? RequestRate.windowSeconds
    default: nil
    }
  }

  /// Adds the headers of draft-ietf-httpapi-ratelimit-headers-10.
  private mutating func add(_ rate: RequestRate.Answer) {
    add("RateLimit-Policy", "\"key\";q=\(rate.limit);w=\(RequestRate.windowSeconds)")
    add("RateLimit", "\"key\";r=\(rate.remaining);t=\(rate.resetSeconds)")
  }

  private mutating func add(_ name: String, _ value: String) {
    fields += "\r\n"
    fields += name
    fields += ": "
    // A control character becomes a space: a line break would begin another field.
    fields +=
      value.utf8.contains { $0 < 0x20 } ? String(decoding: value.utf8.map { max($0, 0x20) }, as: UTF8.self) : value
  }

  // MARK: - On the wire

  /// Appends the response: all of it, or of a stream its head.
  /// - Parameters:
  ///   - date: the value of the field `Date`.
  ///   - isLast: the connection ends with this response.
  ///   - isForHead: the request was a HEAD: its response has no body.
  ///   - isChunked: a stream comes in chunks; else the end of the connection ends it.
  func encode(into buffer: inout ByteBuffer, date: String, isLast: Bool, isForHead: Bool, isChunked: Bool) {
    buffer.writeString("HTTP/1.1 ")
    buffer.writeString("\(status) ")
    buffer.writeString(HTTPResponseStatus(statusCode: status).reasonPhrase)
    buffer.writeString("\r\nServer: herald\r\nCache-Control: no-store\r\nDate: ")
    buffer.writeString(date)
    buffer.writeString(fields)
    if isLast { buffer.writeString("\r\nConnection: close") }
    switch body {
    case .stream: buffer.writeString(isChunked ? "\r\nTransfer-Encoding: chunked\r\n\r\n" : "\r\n\r\n")
    case .none: buffer.writeString("\r\n\r\n")
    case .bytes where status == 204: buffer.writeString("\r\n\r\n")
    case .bytes(let bytes):
      buffer.writeString("\r\nContent-Length: ")
      buffer.writeString(String(bytes.count))
      buffer.writeString("\r\n\r\n")
      if !isForHead { buffer.writeBytes(bytes) }
    }
  }

  /// Appends a part of a stream.
  static func encode(part: ByteBuffer, into buffer: inout ByteBuffer) {
    buffer.writeString(String(part.readableBytes, radix: 16))
    buffer.writeString("\r\n")
    buffer.writeImmutableBuffer(part)
    buffer.writeString("\r\n")
  }

  /// The end of a stream.
  static let endOfStream = "0\r\n\r\n"
}
