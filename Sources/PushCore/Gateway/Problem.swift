/// An error of the gateway, as problem+json (RFC 9457). Its `type` is a link to the gateway's page `/docs`.
package struct Problem: Error, Hashable, Sendable {
  package enum Kind: String, CaseIterable, Sendable {
    case badRequest = "bad-request"
    case invalid
    case unauthorized
    case forbidden
    case notFound = "not-found"
    case notAllowed = "method-not-allowed"
    case timeout
    case conflict
    case inProgress = "request-in-progress"
    case tooLarge = "too-large"
    case unsupportedMedia = "unsupported-media-type"
    case reused = "idempotency-key-reused"
    case overRate = "quota-exceeded"
    case internalError = "internal-error"
    case notImplemented = "not-implemented"
    case unavailable = "temporary-reduced-capacity"

    package var status: Int {
      switch self {
      case .badRequest, .invalid: 400
      case .unauthorized: 401
      case .forbidden: 403
      case .notFound: 404
      case .notAllowed: 405
      case .timeout: 408
      case .conflict, .inProgress: 409
      case .tooLarge: 413
      case .unsupportedMedia: 415
      case .reused: 422
      case .overRate: 429
      case .internalError: 500
      case .notImplemented: 501
      case .unavailable: 503
      }
    }

    package var title: String {
      switch self {
      case .badRequest: "The request is malformed"
      case .invalid: "The body breaks a rule"
      case .unauthorized: "The key is missing or not valid"
      case .forbidden: "The key does not allow this"
      case .notFound: "Not found"
      case .notAllowed: "The path does not allow this method"
      case .timeout: "The request took too long"
      case .conflict: "The request conflicts with the current state"
      case .inProgress: "The same request is in progress"
      case .tooLarge: "The body is too large"
      case .unsupportedMedia: "The content type is not supported"
      case .reused: "The idempotency key was used for another request"
      case .overRate: "The key exceeded its rate or its number of readers"
      case .internalError: "Internal error"
      case .notImplemented: "The transfer coding is not supported"
      case .unavailable: "Temporarily unavailable"
      }
    }
  }

  /// A rule that the request's body breaks.
  package struct Fault: Hashable, Sendable {
    /// A JSON pointer (RFC 6901); empty: the body as a whole.
    package var pointer: String
    package var rule: String

    package init(pointer: String, rule: String) {
      self.pointer = pointer
      self.rule = rule
    }

    /// A fault in a job or a registration.
    package init(_ error: JobError) {
      pointer = Fault.pointer(ofField: error.field)
      rule = error.rule
    }

    /// `/payload/aps`, `/to/tokens/3` of `payload.aps`, `to.tokens[3]`.
    private static func pointer(ofField field: String) -> String {
      guard field != "body" else { return "" }
      var pointer = "/"
      for scalar in field.unicodeScalars {
        switch scalar {
        case ".", "[": pointer += "/"
        case "]": break
        case "~": pointer += "~0"
        case "/": pointer += "~1"
        default: pointer.unicodeScalars.append(scalar)
        }
      }
      return pointer
    }

    fileprivate static func append(_ faults: [Fault], to bytes: inout [UInt8]) {
      bytes.append(text: "\"errors\":[")
      for (index, fault) in faults.enumerated() {
        if index > 0 { bytes.append(ASCII.comma) }
        bytes.append(text: "{\"pointer\":")
        bytes.append(jsonString: fault.pointer)
        bytes.append(text: ",\"rule\":")
        bytes.append(jsonString: fault.rule)
        bytes.append(ASCII.closeBrace)
      }
      bytes.append(ASCII.closeBracket)
    }
  }

  package let kind: Kind
  package let detail: String
  package let faults: [Fault]

  package init(_ kind: Kind, _ detail: String, faults: [Fault] = []) {
    self.kind = kind
    self.detail = detail
    self.faults = faults
  }

  /// The body breaks one rule.
  package init(_ fault: Fault) {
    self.init(.invalid, "\(fault.pointer.isEmpty ? "the body" : fault.pointer) \(fault.rule)", faults: [fault])
  }

  package init(_ refusal: KeyRefusal) {
    self.init(refusal.isForbidden ? .forbidden : .badRequest, refusal.text)
  }

  package var json: [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(text: "{\"type\":\"/docs#\(kind.rawValue)\",\"title\":\"\(kind.title)\",\"status\":\(kind.status)")
    bytes.append(text: ",\"detail\":")
    bytes.append(jsonString: detail)
    if !faults.isEmpty {
      bytes.append(ASCII.comma)
      Fault.append(faults, to: &bytes)
    }
    bytes.append(ASCII.closeBrace)
    return bytes
  }

  /// A line of the answer to a JSON Lines request, with its line break.
  /// - Parameter index: of the request's line, from 0.
  package func line(_ index: Int) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(text: "{\"index\":\(index),\"status\":\(kind.status),")
    Fault.append(faults.isEmpty ? [Fault(pointer: "", rule: detail)] : faults, to: &bytes)
    bytes.append(text: "}\n")
    return bytes
  }
}
