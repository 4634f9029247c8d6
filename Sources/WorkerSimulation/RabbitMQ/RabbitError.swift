/// A client's error with the server's code and text. It ends the channel or, if it is hard, the connection.
struct RabbitError: Error, Equatable {
  enum Kind {
    case connectionForced, accessRefused, notFound, resourceLocked, preconditionFailed
    case frameError, syntaxError, commandInvalid, channelError, unexpectedFrame, resourceError, notAllowed
    case notImplemented, internalError
  }

  let code: UInt16
  let text: [UInt8]
  let isHard: Bool
  /// The method that caused it; 0: none.
  var method: UInt32

  /// The limit of a short string.
  private static let textMaximum = 255

  init(_ kind: Kind, _ explanation: String, method: UInt32 = 0) {
    let name: String
    switch kind {
    case .connectionForced: (code, name, isHard) = (320, "CONNECTION_FORCED", true)
    case .accessRefused: (code, name, isHard) = (403, "ACCESS_REFUSED", false)
    case .notFound: (code, name, isHard) = (404, "NOT_FOUND", false)
    case .resourceLocked: (code, name, isHard) = (405, "RESOURCE_LOCKED", false)
    case .preconditionFailed: (code, name, isHard) = (406, "PRECONDITION_FAILED", false)
    case .frameError: (code, name, isHard) = (501, "FRAME_ERROR", true)
    case .syntaxError: (code, name, isHard) = (502, "SYNTAX_ERROR", true)
    case .commandInvalid: (code, name, isHard) = (503, "COMMAND_INVALID", true)
    case .channelError: (code, name, isHard) = (504, "CHANNEL_ERROR", true)
    case .unexpectedFrame: (code, name, isHard) = (505, "UNEXPECTED_FRAME", true)
    case .resourceError: (code, name, isHard) = (506, "RESOURCE_ERROR", true)
    case .notAllowed: (code, name, isHard) = (530, "NOT_ALLOWED", true)
    case .notImplemented: (code, name, isHard) = (540, "NOT_IMPLEMENTED", true)
    case .internalError: (code, name, isHard) = (541, "INTERNAL_ERROR", true)
    }
    // The server gives no details of an internal error.
    let whole = Array((kind == .internalError ? name : "\(name) - \(explanation)").utf8)
    text =
      whole.count > RabbitError.textMaximum
      ? Array(whole.prefix(RabbitError.textMaximum - 3)) + Array("...".utf8) : whole
    self.method = method
  }

  static func noQueue(_ name: [UInt8], in host: String) -> RabbitError {
    RabbitError(.notFound, "no queue '\(String(decoding: name, as: UTF8.self))' in vhost '\(host)'")
  }

  static func noExchange(_ name: [UInt8], in host: String) -> RabbitError {
    RabbitError(.notFound, "no exchange '\(String(decoding: name, as: UTF8.self))' in vhost '\(host)'")
  }
}
