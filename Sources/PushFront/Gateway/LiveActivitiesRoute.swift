import NIOHTTP1
import PushCore
import PushOperations

/// A request of the Live Activities API, `/json/1.3/…`. It sends its key in another place and gets other answers and errors than `/v1`. All
/// answers are JSON.
struct LiveActivitiesRoute {
  /// The last part of the path.
  let method: String
  let exchange: GatewayExchange
  let services: GatewayServices

  /// Throws only errors of the connection.
  func respond() async throws -> GatewayAnswer {
    var rate: RequestRate.Answer?
    let answer: LiveActivitiesAnswer
    do {
      answer = try await self.answer(&rate)
    } catch let problem as Problem {
      answer = LiveActivitiesRoute.answer(problem)
    }
    if answer == .unknownAccount { services.metrics.countRefusedKey() }
    return GatewayAnswer(GatewayReply(answer), rate: rate, allowed: GatewayRoute.liveActivities(method).methods)
  }

  /// - Parameter rate: set to the state of the key's rate as soon as it is known.
  private func answer(_ rate: inout RequestRate.Answer?) async throws -> LiveActivitiesAnswer {
    guard exchange.request.method == .POST else { return .notPOST }
    guard let method = LiveActivitiesMethod(rawValue: method) else { return .unsupported(self.method) }
    let key: APIKey
    switch try await self.key(method) {
    case .success(let found): key = found
    case .failure(let refusal): return refusal.answer
    }
    let body = try await exchange.body(of: key)
    let now =
      method.permission == .register ? await services.backend.takeTime() : services.unixMilliseconds
    let (api, authorization) = (services.liveActivities, exchange.request["authorization"])
    let reading = try await services.largeWork.run(body.bytes.count, for: key.id) { () throws(Problem) in
      var random = SystemRandomNumberGenerator()
      return api.read(
        method: method.rawValue, body: body.bytes, authorization: authorization, now: now,
        random: &random)
    }
    if let access = reading.access, let refusal = try await refusal(access, &rate) { return refusal }
    switch reading.decision {
    case .answer(let answer): return answer
    case .plan(let plan): return try await carryOut(plan, key)
    }
  }

  /// A request without a valid key.
  private struct Refusal: Error {
    let answer: LiveActivitiesAnswer
  }

  /// A valid key of the request, before its body is read to the end: from the head, or from the beginning of the body.
  private func key(_ method: LiveActivitiesMethod) async throws -> Result<APIKey, Refusal> {
    if let key = exchange.key { return .success(key) }
    switch try await exchange.beginning() {
    case .keyed(let key): return .success(key)
    case .unkeyed(let bytes, let isWhole):
      // It may have been created since keys were read last.
      let texts = [exchange.request.authorization(LiveActivitiesAPI.schemes), LiveActivitiesAPI.token(in: bytes)]
      if let text = texts.lazy.compactMap({ $0 }).first(where: { APIKeyText($0) != nil }) {
        return .success(try await services.key(text))
      }
      let authorization = exchange.request["authorization"]
      return .failure(
        Refusal(
          answer: isWhole
            ? services.liveActivities.refusal(method, bytes, authorization: authorization)
            : .keyTooLate(maximum: GatewayLimits.unkeyedBodyBytesMaximum)))
    }
  }

  private static func answer(_ problem: Problem) -> LiveActivitiesAnswer {
    switch problem.kind {
    case .tooLarge: .tooLarge(maximum: GatewayLimits.bodyBytesMaximum)
    case .unsupportedMedia: .compressed
    case .unavailable: .unconfirmed
    case .unauthorized: .unknownAccount
    case .forbidden: .forbidden
    // A filter that cannot be evaluated. All other faults were found before.
    case .invalid: .unusableFilter(problem.faults.first?.rule ?? problem.detail)
    case .badRequest, .notFound, .notAllowed, .timeout, .conflict, .inProgress, .reused, .overRate, .internalError,
      .notImplemented:
      .failed
    }
  }

  // MARK: - The key

  /// Checks the key and its rate. nil: the request is allowed.
  private func refusal(
    _ access: LiveActivitiesReading.Access, _ rate: inout RequestRate.Answer?
  ) async throws(Problem) -> LiveActivitiesAnswer? {
    let key = try await services.key(access.token)
    rate = services.backend.keys.take(key, now: GatewayClock.now)
    if let rate, !rate.isAllowed { return .tooMany(retryAfter: rate.resetSeconds) }
    let scope: KeyScope =
      switch access.permission {
      case .send: .send
      case .register: .register
      }
    let named = key.scope(app: access.scope.app, environment: access.scope.environment.name)
    return key.allows(scope) && named == .success(access.scope) ? nil : .forbidden
  }

  // MARK: - The plan

  private func carryOut(_ plan: LiveActivitiesPlan, _ key: APIKey) async throws(Problem) -> LiveActivitiesAnswer {
    let (scope, named, segments) = (plan.scope, plan.namedSegments, plan.segments)
    if !named.isEmpty {
      let missing = try await services.ask { backend, then in backend.firstMissing(of: named, in: scope, then: then) }
      if let missing { return .unknownSegment(missing) }
    }
    if !segments.isEmpty {
      try await services.ask { backend, then in backend.put(segments, in: scope, then: then) }
    }
    guard await services.backend.publish(messages(of: plan), of: key).allSatisfy({ $0 == .confirmed }) else {
      return plan.answer(isConfirmed: false)
    }
    services.metrics.count(plan.ignored)
    return plan.answer(isConfirmed: true, unknown: await unknown(plan))
  }

  private func messages(of plan: LiveActivitiesPlan) -> [GatewayMessage] {
    let trace = exchange.request.trace
    return plan.publications.map { publication in
      switch publication {
      case .job(let id, let jobClass, let body):
        // Each is an activity's.
        GatewayMessage(.job(jobClass, id: id, scope: plan.scope, trace), body, needsSequence: true)
      case .registration(let body): GatewayMessage(.registration, body)
      }
    }
  }

  /// The devices and users that the registry does not know. Empty if Redis does not answer: RabbitMQ has the jobs, so the client must not
  /// repeat the request.
  private func unknown(_ plan: LiveActivitiesPlan) async -> [String] {
    let (scope, devices, users) = (plan.scope, plan.devices, plan.users)
    guard !devices.isEmpty || !users.isEmpty else { return [] }
    let unknown = try? await services.ask { backend, then in
      backend.unknown(devices: devices, users: users, in: scope, then: then)
    }
    return unknown ?? []
  }
}
