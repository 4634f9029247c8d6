import HTTPTypes
import Hummingbird
import Logging
import NIOHTTP1
import PushCore
import PushIO
import PushOperations

/// Answers requests: finds the route, checks the API key and its rate, and calls the route.
struct GatewayResponder: HTTPResponder {
  typealias Context = BasicRequestContext

  let services: GatewayServices
  let page: GatewayPage

  func respond(to request: Request, context: Context) async throws -> Response {
    let began = ContinuousClock.now
    let route = GatewayRoute(path: request.uri.path)
    let response: Response
    do {
      response = try await answer(request, route)
    } catch let error as HTTPParserError {
      throw error
    } catch {
      services.logger.debug("a request ended early: \(type(of: error))")
      response = GatewayAnswer.response(
        GatewayReply(Problem(.badRequest, "the request could not be read")), rate: nil, allowed: [])
    }
    let duration = began.duration(to: .now).components
    services.metrics.count(
      route?.template ?? "other", response.status.code,
      nanoseconds: duration.seconds * 1_000_000_000 + duration.attoseconds / 1_000_000_000)
    return response
  }

  private func answer(_ request: Request, _ route: GatewayRoute?) async throws -> Response {
    if case .liveActivities(let method) = route {
      return try await LiveActivitiesRoute(method: method, request: request, services: services).response()
    }
    var rate: RequestRate.Answer?
    do {
      guard let route else { throw Problem(.notFound, "there is no such path") }
      guard route.methods.contains(request.method.rawValue) else {
        throw Problem(.notAllowed, "\(route.template) allows \(route.methods.joined(separator: ", "))")
      }
      guard let scope = route.scope else { return response(answerWithoutKey(route), nil, route) }
      let key = try await key(of: request)
      rate = services.backend.keys.take(key, now: GatewayClock.now)
      if let rate, !rate.isAllowed {
        throw Problem(.overRate, "the key may make \(rate.limit) requests a minute")
      }
      guard key.allows(scope) else { throw Problem(.forbidden, "the key does not have the scope \(scope.rawValue)") }
      let call = GatewayCall(request: request, key: key, services: services)
      if route == .outcomes { return try await OutcomeRoute.get(call) }
      return response(try await reply(route, call), rate, route)
    } catch let problem as Problem {
      return response(GatewayReply(problem), rate, route)
    }
  }

  private func response(_ reply: GatewayReply, _ rate: RequestRate.Answer?, _ route: GatewayRoute?) -> Response {
    GatewayAnswer.response(reply, rate: rate, allowed: route?.methods ?? [])
  }

  /// Calls a route that needs a key.
  private func reply(_ route: GatewayRoute, _ call: GatewayCall) async throws -> GatewayReply {
    switch route {
    case .jobs: return try await JobRoutes.post(call)
    case .job(let id): return try await JobRoutes.get(id, call)
    case .control(let command, let id): return try await JobRoutes.control(command, id, call)
    case .device(let id): return try await RegistrationRoutes.put(id, call)
    case .user(let id): return try await RegistrationRoutes.delete(user: id, call)
    case .segment(let code):
      switch call.request.method {
      case .put: return try await SegmentRoutes.put(code, call)
      case .get: return try await SegmentRoutes.get(code, call)
      default: return try await SegmentRoutes.delete(code, call)
      }
    case .segmentCount(let code): return try await SegmentRoutes.count(code, call)
    case .activity(let id): return try await ActivityRoutes.get(id, call)
    case .outcomes, .liveActivities, .description, .page, .alive, .ready, .metrics:
      preconditionFailure("such a route asks for no key here")
    }
  }

  /// Answers a route that needs no key.
  private func answerWithoutKey(_ route: GatewayRoute) -> GatewayReply {
    switch route {
    case .description: return GatewayReply(200, page.json)
    case .page: return GatewayReply(200, page.html, contentType: "text/html; charset=utf-8")
    case .alive: return text(200, "ok\n")
    case .ready:
      let problems = readinessProblems
      return problems.isEmpty ? text(200, "ok\n") : text(503, problems.joined(separator: "\n") + "\n")
    case .metrics:
      return GatewayReply(
        200, services.metrics.text(services.backend.status), contentType: "text/plain; version=0.0.4; charset=utf-8")
    case .jobs, .job, .control, .device, .user, .segment, .segmentCount, .activity, .outcomes, .liveActivities:
      preconditionFailure("such a route asks for a key")
    }
  }

  private func text(_ status: Int, _ text: String) -> GatewayReply {
    GatewayReply(status, text, contentType: "text/plain; charset=utf-8")
  }

  private var readinessProblems: [String] {
    let status = services.backend.status
    var problems: [String] = []
    if !status.isRabbitMQReady { problems.append("RabbitMQ is not ready") }
    if !services.backend.keys.isReady { problems.append("the API keys are not loaded yet") }
    return problems
  }

  private func key(of request: Request) async throws(Problem) -> APIKey {
    let field = (request.headers[.authorization] ?? "").utf8
    guard let space = field.firstIndex(of: UInt8(ascii: " ")), field[..<space].count == 6,
      let scheme = String(field[..<space]), scheme == "Bearer" || scheme.lowercased() == "bearer",
      let start = field[space...].firstIndex(where: { $0 != UInt8(ascii: " ") }), let text = String(field[start...])
    else { throw Problem(.unauthorized, "send Authorization: Bearer hk_…, as `herald keys create` prints it") }
    return try await services.key(text)
  }
}
