import PushCore
import PushIO
import PushOperations

/// A request with a valid API key. Reads its query and headers.
struct GatewayCall: Sendable {
  let exchange: GatewayExchange
  let key: APIKey
  let services: GatewayServices

  var request: GatewayRequest { exchange.request }

  /// Throws a `Problem`, also where the key was revoked while the body came, or `ConnectionEnded`.
  func body() async throws -> GatewayBody {
    let body = try await exchange.body(of: key)
    guard services.backend.keys.isCurrent(key) else {
      throw Problem(.unauthorized, "the key was revoked or changed before the request was complete")
    }
    return body
  }

  /// Reads or writes so many bytes: see `LargeWork`.
  func work<Value: Sendable>(
    on count: Int, _ work: @escaping @Sendable () throws(Problem) -> Value
  ) async throws(Problem) -> Value {
    try await services.largeWork.run(count, for: key.id, work)
  }

  private func query(_ name: String) -> String? { request.parameter(name) }

  var sender: JobIntake.Sender {
    let known = services.appsOfCredentials
    return JobIntake.Sender(
      key: key, app: query("app"), environment: query("environment"), appsOfCredentials: known.apps,
      owners: known.owners)
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

  var trace: TraceContext? { request.trace }

  /// The id of the last event that the client has read, -1 before the first one; nil: send only new outcomes.
  func after() throws(Problem) -> Int64? {
    guard let text = request["last-event-id"] ?? query("after") else { return nil }
    guard let number = Int64(text), number >= -1, number < .max else {
      throw Problem(.badRequest, "after must be the id of an event, or -1 for all events")
    }
    return number
  }

  /// How many elements a page of a list shall have.
  func limit() throws(Problem) -> Int {
    guard let text = query("limit") else { return GatewayLimits.pageDefault }
    guard let limit = Int(text), 1...GatewayLimits.pageMaximum ~= limit else {
      throw Problem(.badRequest, "limit must be from 1 to \(GatewayLimits.pageMaximum)")
    }
    return limit
  }

  /// A parameter that the answer before gave; nil: absent.
  func parameter<Value>(_ name: String, _ read: (String) -> Value?) throws(Problem) -> Value? {
    guard let text = query(name) else { return nil }
    guard let value = read(text) else {
      throw Problem(.badRequest, "\(name) must be the next of the page before it")
    }
    return value
  }

  enum Format {
    case json, lines
  }

  /// The body's format, by its content type.
  func format() throws(Problem) -> Format {
    guard let field = request["content-type"], field != GatewayReply.json else { return .json }
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
    guard let field = request["idempotency-key"] else { return nil }
    guard let key = IdempotencyKey(field: field) else {
      throw Problem(.badRequest, "Idempotency-Key \(IdempotencyKey.rule)")
    }
    return key
  }
}
