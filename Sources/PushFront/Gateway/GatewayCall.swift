import HTTPTypes
import Hummingbird
import PushCore
import PushIO
import PushOperations

/// A request with a valid API key. Reads its query and headers.
struct GatewayCall: Sendable {
  let request: Request
  let key: APIKey
  let services: GatewayServices

  /// The query, undecoded; empty: none.
  var query: String { request.uri.query ?? "" }

  private func query(_ name: String) -> String? {
    request.uri.queryParameters[Substring(name)].map(String.init)
  }

  var sender: JobIntake.Sender {
    JobIntake.Sender(key: key, app: query("app"), environment: query("environment"))
  }

  /// The app and environment of the request, from its key and its query.
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

  /// The id of the last event that the client has read; nil: send only new outcomes.
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

  /// The body's format, by its content type.
  func format() throws(Problem) -> Format {
    guard let field = request.headers[.contentType], field != GatewayReply.json else { return .json }
    let type = field.split(separator: ";").first.map { $0.lowercased().filter { $0 != " " } }
    switch type {
    case GatewayReply.json: return .json
    case GatewayReply.lines: return .lines
    default:
      throw Problem(
        .unsupportedMedia, "the content type must be \(GatewayReply.json), or \(GatewayReply.lines) for many jobs")
    }
  }

  /// Throws unless the body's format is JSON.
  func requireJSON() throws(Problem) {
    guard try format() == .json else {
      throw Problem(.unsupportedMedia, "the content type must be \(GatewayReply.json)")
    }
  }

  func idempotencyKey() throws(Problem) -> IdempotencyKey? {
    guard let field = request.headers[.idempotencyKey] else { return nil }
    guard let key = IdempotencyKey(field: field) else {
      throw Problem(.badRequest, "Idempotency-Key \(IdempotencyKey.rule)")
    }
    return key
  }
}
