/// The control port's answer to one request.
struct ControlResponse: Sendable {
  var status: Int
  var contentType = "application/json"
  var body: [UInt8]

  init(status: Int = 200, json: JSONText) {
    self.status = status
    body = json.bytes + [UInt8(ascii: "\n")]
  }

  init(html: String) {
    status = 200
    contentType = "text/html; charset=utf-8"
    body = Array(html.utf8)
  }

  /// Plain lines, for programs that read very many.
  init(lines: [UInt8]) {
    status = 200
    contentType = "text/plain"
    body = lines
  }

  /// `{"error": …}`
  static func error(_ status: Int, _ text: String) -> ControlResponse {
    var json = JSONText()
    json.beginObject()
    json.field("error", text)
    json.endObject()
    return ControlResponse(status: status, json: json)
  }
}
