import Logging
import PushCore
import PushOperations

/// A request with an idempotency key: it is carried out once, and its answer kept for a day.
struct IdempotentRequest: Sendable {
  let key: IdempotencyKey
  let route: String
  /// Of everything that makes the request what it is.
  let fingerprint: String
  let call: GatewayCall

  /// - Parameter work: the request itself.
  func answer(_ work: () async throws(Problem) -> GatewayReply) async throws(Problem) -> GatewayReply {
    let finding = try await call.services.ask { [self] desk, then in
      desk.begin(key, of: call.key, route, fingerprint: fingerprint, then: then)
    }
    switch finding {
    case .inFlight: throw Problem(.conflict, "a request with this idempotency key is not answered yet")
    case .other: throw Problem(.reused, "a request with this idempotency key had another body")
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
    await keep(reply.status == 202 ? kept(reply) : nil)
    return reply
  }

  /// Where it fails, a repetition is told that the request is in flight, or is carried out again with the same ids.
  private func keep(_ answer: IdempotentAnswer?) async {
    let done: Void? = try? await call.services.ask { [self] desk, then in
      desk.end(key, of: call.key, route, answer: answer, then: then)
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
