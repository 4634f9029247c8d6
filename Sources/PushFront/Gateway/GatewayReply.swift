import PushCore

/// A route's answer, without HTTP details.
struct GatewayReply: Sendable {
  static let json = "application/json"
  static let lines = "application/x-ndjson"
  private static let problem = "application/problem+json"

  var status: Int
  var contentType: String
  var bytes: [UInt8]
  var location: String?
  /// The answer to an earlier request with the same idempotency key.
  var isReplayed = false
  /// Some of the request's jobs were not confirmed: the same request must be carried out again, not answered by this.
  var hasUnconfirmedJobs = false
  /// The kind of error; nil: success.
  var problem: Problem.Kind?
  /// The header `Retry-After`, seconds; nil: the default for `problem`.
  var retryAfter: Int?

  init(_ status: Int, _ bytes: [UInt8], contentType: String = GatewayReply.json, location: String? = nil) {
    self.status = status
    self.bytes = bytes
    self.contentType = contentType
    self.location = location
  }

  init(_ status: Int, _ text: String, contentType: String = GatewayReply.json) {
    self.init(status, Array(text.utf8), contentType: contentType)
  }

  init(_ problem: Problem) {
    self.init(problem.kind.status, problem.json, contentType: GatewayReply.problem)
    self.problem = problem.kind
  }

  init(_ answer: LiveActivitiesAnswer) {
    self.init(answer.status, answer.body)
    problem = Problem.Kind.allCases.first { $0.status == answer.status }
    retryAfter = answer.retryAfter
  }

  /// The text as a JSON string, with quotes.
  static func quoted(_ text: String) -> String {
    var bytes: [UInt8] = []
    bytes.append(jsonString: text)
    return String(decoding: bytes, as: UTF8.self)
  }
}
