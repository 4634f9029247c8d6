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
