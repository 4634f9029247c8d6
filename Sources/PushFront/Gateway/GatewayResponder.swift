import Logging
import NIOHTTP1
import PushCore
import PushIO
import PushOperations
import Synchronization

/// Answers requests: finds the route, checks the API key and its rate, and calls the route.
struct GatewayResponder: Sendable {
  let services: GatewayServices
  let page: GatewayPage
  let connectionsMaximum: Int

  /// - Returns: nil: the connection ended before the request was complete.
  func respond(to exchange: GatewayExchange) async -> GatewayAnswer? {
    let began = GatewayClock.now
    let route = exchange.route
    let answer: GatewayAnswer
    do {
      answer = try await self.answer(exchange, route)
    } catch {
      services.logger.debug("a request ended early: \(type(of: error))")
      return nil
    }
    services.metrics.count(
      route?.template ?? "other", answer.status, nanoseconds: GatewayClock.now.nanoseconds - began.nanoseconds)
    return answer
  }

  /// Throws only `ConnectionEnded`.
  private func answer(_ exchange: GatewayExchange, _ route: GatewayRoute?) async throws -> GatewayAnswer {
    if case .liveActivities(let method) = route {
      return try await LiveActivitiesRoute(method: method, exchange: exchange, services: services).respond()
    }
    var rate: RequestRate.Answer?
    do {
      guard let route else { throw Problem(.notFound, "there is no such path") }
      guard route.methods.contains(exchange.request.method.rawValue) else {
        throw Problem(.notAllowed, "\(route.template) allows \(route.methods.joined(separator: ", "))")
      }
      guard let scope = route.scope else { return GatewayAnswer(answerWithoutKey(route)) }
      let key = try await key(of: exchange)
      rate = services.backend.keys.take(key, now: GatewayClock.now)
      if let rate, !rate.isAllowed {
        throw Problem(.overRate, "the key may make \(rate.limit) requests a minute")
      }
      guard key.allows(scope) else { throw Problem(.forbidden, "the key does not have the scope \(scope.rawValue)") }
      let call = GatewayCall(exchange: exchange, key: key, services: services)
      if route == .outcomes { return try await OutcomeRoute.get(call) }
      return GatewayAnswer(try await reply(route, call), rate: rate)
    } catch let problem as Problem {
      return GatewayAnswer(GatewayReply(problem), rate: rate, allowed: route?.methods ?? [])
    }
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
      case .PUT: return try await SegmentRoutes.put(code, call)
      case .DELETE: return try await SegmentRoutes.delete(code, call)
      default: return try await SegmentRoutes.get(code, call)
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
    if status.isFull { problems.append("too many jobs wait for RabbitMQ's confirms") }
    if services.metrics.connections.load(ordering: .relaxed) > connectionsMaximum {
      problems.append("there are too many connections (gateway.connections_max)")
    }
    return problems
  }

  private func key(of exchange: GatewayExchange) async throws(Problem) -> APIKey {
    if let key = exchange.key { return key }
    guard let text = exchange.request.authorization(["bearer"]) else {
      throw Problem(.unauthorized, "send Authorization: Bearer hk_…, as `herald keys create` prints it")
    }
    let key = try await services.key(text)
    exchange.adopt(key)
    return key
  }

  /// The valid key in the head of a request; nil: it has none that is known, or needs none.
  func knownKey(of request: GatewayRequest, _ route: GatewayRoute?) -> APIKey? {
    guard let route else { return nil }
    if case .liveActivities = route {
      return request.authorization(LiveActivitiesAPI.schemes).flatMap(services.knownKey)
    }
    return route.scope == nil ? nil : request.authorization(["bearer"]).flatMap(services.knownKey)
  }

  /// Whether the head has what the route takes for a key. If it is not known, it is looked up, and no body is read before that.
  func looksUpKey(of request: GatewayRequest, _ route: GatewayRoute?) -> Bool {
    guard let route, route.scope != nil else { return false }
    if case .liveActivities = route { return false }
    return request.authorization(["bearer"]) != nil
  }

  /// Finds a valid key in the beginning of a body; nil: the route has its key in the head.
  func finder(_ route: GatewayRoute?) -> (([UInt8]) -> APIKey?)? {
    guard case .liveActivities = route else { return nil }
    return { [services] bytes in LiveActivitiesAPI.token(in: bytes).flatMap(services.knownKey) }
  }
}
