import Logging
import PushCore
import PushOperations

/// A request with an idempotency key: it is carried out once, and its answer is stored for a day.
struct IdempotentRequest: Sendable {
  let key: IdempotencyKey
  let route: String
  /// A hash of the request's format, query and body. A request with the same key and another fingerprint is refused.
  let fingerprint: String
  let call: GatewayCall

  /// Answers the request. An earlier answer is replayed.
  /// - Parameter work: carries out the request.
  func answer(_ work: () async throws(Problem) -> GatewayReply) async throws(Problem) -> GatewayReply {
    let finding = try await call.services.ask { [self] backend, then in
      backend.begin(key, of: call.key, route, fingerprint: fingerprint, then: then)
    }
    switch finding {
    case .inFlight: throw Problem(.inProgress, "a request with this idempotency key is not answered yet")
    case .mismatch: throw Problem(.reused, "a request with this idempotency key had another body")
    case .answered(let kept): return replay(kept)
    case .new: break
    }
    let reply: GatewayReply
    do throws(Problem) {
      reply = try await work()
    } catch {
      await keep(nil)
      throw error
    }
    await keep(reply.status == 202 && !reply.hasUnconfirmedJobs ? kept(reply) : nil)
    return reply
  }

  /// Stores the answer, or releases the key if it is nil. If this fails, a repeated request gets 409 until the reservation of the key ends,
  /// and is then carried out again with the same job ids.
  private func keep(_ answer: IdempotentAnswer?) async {
    let done: Void? = try? await call.services.ask { [self] backend, then in
      backend.end(key, of: call.key, route, answer: answer, then: then)
    }
    if done == nil { call.services.logger.debug("an answer was not kept for its idempotency key") }
  }

  private func kept(_ reply: GatewayReply) -> IdempotentAnswer {
    IdempotentAnswer(
      fingerprint: fingerprint, status: reply.status, contentType: reply.contentType, location: reply.location ?? "",
      body: reply.bytes)
  }

  private func replay(_ kept: IdempotentAnswer) -> GatewayReply {
    var reply = GatewayReply(
      kept.status, kept.body, contentType: kept.contentType, location: kept.location.isEmpty ? nil : kept.location)
    reply.isReplayed = true
    return reply
  }
}
