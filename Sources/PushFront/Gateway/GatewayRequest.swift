import HummingbirdCore
import NIOHTTP1
import PushCore

/// The head of a request.
struct GatewayRequest: Sendable {
  let method: HTTPMethod
  /// Without the query.
  let path: String
  /// Undecoded; nil: none.
  let query: String?
  private let headers: HTTPHeaders
  /// nil: the request has no query.
  private let uri: URI?

  init(_ head: HTTPRequestHead) {
    method = head.method
    headers = head.headers
    let target = head.uri.utf8
    // Most targets are a path alone. The others, also with a scheme and a host, take the slower way.
    if target.first == UInt8(ascii: "/"), !target.contains(UInt8(ascii: "?")) {
      path = head.uri
      query = nil
      uri = nil
    } else {
      let uri = URI(head.uri)
      path = uri.path
      query = uri.query
      self.uri = uri
    }
  }

  /// The value of the header field with this name, which is in lower case. The values of a repeated one are joined by commas; nil: absent.
  subscript(name: String) -> String? {
    var value: String?
    for field in headers where GatewayRequest.isNamed(field.name, name) {
      value = value.map { "\($0), \(field.value)" } ?? field.value
    }
    return value
  }

  /// What follows one of the schemes (in lower case) in the header `Authorization`; nil: no scheme of them, or nothing behind it.
  func authorization(_ schemes: [String]) -> String? {
    let field = (self["authorization"] ?? "").utf8
    guard let space = field.firstIndex(of: UInt8(ascii: " ")), let scheme = String(field[..<space]),
      schemes.contains(scheme.lowercased()),
      let start = field[space...].firstIndex(where: { $0 != UInt8(ascii: " ") })
    else { return nil }
    return String(field[start...])
  }

  /// Whether a header field has this name, which is in lower case.
  static func isNamed(_ field: String, _ name: String) -> Bool {
    field.utf8.count == name.utf8.count && field.lowercased() == name
  }

  /// A decoded parameter of the query; nil: absent.
  func parameter(_ name: String) -> String? { uri?.queryParameters[Substring(name)].map(String.init) }

  var trace: TraceContext? {
    TraceContext(traceparent: self["traceparent"], tracestate: self["tracestate"])
  }
}

// MARK: - What is no request

extension GatewayRequest {
  /// Why a request with this head is not taken at all; nil: it is.
  static func problem(of head: HTTPRequestHead) -> Problem? {
    // A proxy in front may have read a different Host than we would (RFC 9112, 3.2).
    let hosts = head.headers.count { isNamed($0.name, "host") }
    if hosts > 1 || hosts == 0 && head.version != .http1_0 {
      return Problem(.badRequest, "a request needs exactly one Host header field; in HTTP/1.0, at most one")
    }
    if let coding = head.headers.first(name: "transfer-encoding"), coding.lowercased() != "chunked" {
      return Problem(.notImplemented, "the only transfer coding that is understood is chunked")
    }
    return nil
  }

  static func problem(of error: HTTPParserError) -> Problem {
    guard error == .headerOverflow else {
      return Problem(.badRequest, "these bytes are not an HTTP/1.1 request: \(error)")
    }
    return Problem(
      .badRequest,
      """
      the request line and each header field must have at most \(GatewayLimits.headerFieldBytesMaximum) bytes, all fields together at most \
      \(GatewayLimits.headerBytesMaximum), and there may be at most \(GatewayLimits.headerCountMaximum) of them
      """)
  }
}
