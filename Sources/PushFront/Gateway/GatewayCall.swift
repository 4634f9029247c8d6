import HTTPTypes
import Hummingbird
import PushCore
import PushIO
import PushOperations

/// A request of a key's owner.
struct GatewayCall: Sendable {
  let request: Request
  let key: APIKey
  let services: GatewayServices

  /// As it came; empty: none.
  var query: String { request.uri.query ?? "" }

  private func query(_ name: String) -> String? {
    request.uri.queryParameters[Substring(name)].map(String.init)
  }

  var sender: JobIntake.Sender {
    JobIntake.Sender(key: key, app: query("app"), environment: query("environment"))
  }

  /// The app and environment that the request is about.
  func scope() throws(Problem) -> AppScope {
    switch key.scope(app: query("app"), environment: query("environment")) {
    case .success(let scope): return scope
    case .failure(let refusal): throw Problem(refusal)
    }
  }

  func jobClass() throws(Problem) -> JobClass {
    guard let word = query("class") else { return .transactional }
    guard let jobClass = JobClass.allCases.first(where: { $0.name == word }) else {
      throw Problem(.badRequest, "class must be transactional or bulk")
    }
    return jobClass
  }

  var trace: TraceContext? {
    TraceContext(traceparent: request.headers[.traceparent], tracestate: request.headers[.tracestate])
  }

  /// The number in the log behind which outcomes are told; nil: from now on.
  func after() throws(Problem) -> Int64? {
    guard let text = request.headers[.lastEventID] ?? query("after") else { return nil }
    guard let number = Int64(text), number >= 0, number < .max else {
      throw Problem(.badRequest, "after must be the id of an event")
    }
    return number
  }

  enum Format {
    case json, lines
  }

  /// What the body is.
  func format() throws(Problem) -> Format {
    guard let field = request.headers[.contentType], field != GatewayReply.json else { return .json }
    let type = field.split(separator: ";").first.map { $0.lowercased().filter { $0 != " " } }
    switch type {
    case GatewayReply.json: return .json
    case GatewayReply.lines: return .lines
    default:
      throw Problem(.unsupportedMedia, "a body is \(GatewayReply.json), or \(GatewayReply.lines) for many jobs")
    }
  }

  /// Of a request with one JSON object.
  func requireJSON() throws(Problem) {
    guard try format() == .json else { throw Problem(.unsupportedMedia, "a body is \(GatewayReply.json) here") }
  }

  func idempotencyKey() throws(Problem) -> IdempotencyKey? {
    guard let field = request.headers[.idempotencyKey] else { return nil }
    guard let key = IdempotencyKey(field: field) else {
      throw Problem(.badRequest, "Idempotency-Key \(IdempotencyKey.rule)")
    }
    return key
  }
}
