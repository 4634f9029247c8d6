import PushIO

extension SimulatedRequest {
  /// Copies what an HTTP/2 stream received.
  init(_ stream: HTTP2StreamID, of http: HTTP2ServerConnection) {
    var fields: [Field] = []
    var method = ""
    var path = ""
    for index in 0..<http.headerCount(of: stream) {
      http.withField(at: index, of: stream) { name, value in
        let field = Field(name: String(copying: name), value: String(copying: value))
        switch field.name {
        case ":method": method = field.value
        case ":path": path = field.value
        case ":scheme", ":authority": break
        default: fields.append(field)
        }
      }
    }
    let body = http.withBody(of: stream) { bytes in
      var copy: [UInt8] = []
      copy.reserveCapacity(bytes.count)
      for index in 0..<bytes.count { copy.append(bytes[index]) }
      return copy
    }
    self.init(method: method, path: path, fields: fields, body: body, bodyCount: http.bodyCount(of: stream))
  }
}
