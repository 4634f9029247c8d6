import HTTPTypes
import Hummingbird
import NIOCore
import PushCore

/// Turns replies into HTTP responses.
enum GatewayAnswer {
  /// - Parameters:
  ///   - rate: the state of the key's rate; nil: the key has no rate.
  ///   - allowed: the methods that the path allows.
  static func response(_ reply: GatewayReply, rate: RequestRate.Answer?, allowed: [String]) -> Response {
    var headers: HTTPFields = [.cacheControl: "no-store"]
    if !reply.contentType.isEmpty { headers[.contentType] = reply.contentType }
    if let location = reply.location { headers[.location] = location }
    if reply.isReplayed { headers[.idempotencyReplayed] = "true" }
    if let rate { headers.add(rate) }
    switch reply.problem {
    case .unauthorized: headers[.wwwAuthenticate] = "Bearer"
    case .unavailable: headers[.retryAfter] = "\(GatewayLimits.retryAfterSeconds)"
    case .overRate: headers[.retryAfter] = "\(rate?.resetSeconds ?? RequestRate.windowSeconds)"
    case .notAllowed: headers[.allow] = allowed.joined(separator: ", ")
    // The rest of the body is not read.
    case .tooLarge, .timeout: headers[.connection] = "close"
    case .badRequest, .invalid, .forbidden, .notFound, .conflict, .unsupportedMedia, .reused, .internalError, nil:
      break
    }
    if let retryAfter = reply.retryAfter { headers[.retryAfter] = "\(retryAfter)" }
    return Response(
      status: HTTPResponse.Status(code: reply.status), headers: headers,
      body: reply.bytes.isEmpty ? ResponseBody() : ResponseBody(byteBuffer: ByteBuffer(bytes: reply.bytes)))
  }
}

extension HTTPFields {
  /// Adds the headers of draft-ietf-httpapi-ratelimit-headers-10.
  fileprivate mutating func add(_ rate: RequestRate.Answer) {
    self[.rateLimitPolicy] = "\"key\";q=\(rate.limit);w=\(RequestRate.windowSeconds)"
    self[.rateLimit] = "\"key\";r=\(rate.remaining);t=\(rate.resetSeconds)"
  }
}

extension HTTPField.Name {
  static let traceparent = named("traceparent")
  static let tracestate = named("tracestate")
  static let idempotencyKey = named("Idempotency-Key")
  static let idempotencyReplayed = named("Idempotency-Replayed")
  static let rateLimit = named("RateLimit")
  static let rateLimitPolicy = named("RateLimit-Policy")
  static let lastEventID = named("Last-Event-ID")

  private static func named(_ name: String) -> HTTPField.Name {
    guard let name = HTTPField.Name(name) else { preconditionFailure("a header's name") }
    return name
  }
}
