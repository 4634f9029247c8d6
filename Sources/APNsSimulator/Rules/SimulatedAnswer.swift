/// The simulator's answer: a status, and for an error APNs' reason.
package struct SimulatedAnswer: Hashable, Sendable {
  package var status: Int
  /// nil on success, or if the answer has no body.
  package var reason: String?
  /// Unix milliseconds; sent with 410.
  package var timestamp: Int64?
  /// A success's body (channel management only).
  package var body: [UInt8] = []
  /// Fields besides `:status`, `content-type` and the id.
  package var fields: [SimulatedRequest.Field] = []

  package init(status: Int, reason: String? = nil, timestamp: Int64? = nil) {
    self.status = status
    self.reason = reason
    self.timestamp = timestamp
  }

  package static let accepted = SimulatedAnswer(status: 200)

  package static func badRequest(_ reason: String) -> SimulatedAnswer { SimulatedAnswer(status: 400, reason: reason) }
  package static func forbidden(_ reason: String) -> SimulatedAnswer { SimulatedAnswer(status: 403, reason: reason) }

  package var isSuccess: Bool { status >= 200 && status < 300 }

  /// The body on the wire: empty, or `{"reason":"…"}`, with a timestamp if there is one.
  package var bytes: [UInt8] {
    guard let reason else { return body }
    var json = JSONText()
    json.beginObject()
    json.field("reason", reason)
    if let timestamp { json.field("timestamp", timestamp) }
    json.endObject()
    return json.bytes
  }
}
