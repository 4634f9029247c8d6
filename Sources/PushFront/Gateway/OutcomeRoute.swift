import NIOCore
import NIOHTTP1
import PushCore
import PushOperations

/// `GET /v1/outcomes`: an app's outcomes as server-sent events. The id of an event is the outcome's offset in the results log.
enum OutcomeRoute {
  static func get(_ call: GatewayCall) async throws(Problem) -> GatewayAnswer {
    let scope = try call.scope()
    let after = try call.after()
    let backend = call.services.backend
    let reader: OutcomeReader
    do throws(OutcomeRefusal) {
      reader = try await backend.outcomes(of: scope, after: after, key: call.key)
    } catch {
      throw problem(error, after: after)
    }
    guard call.request.method != .HEAD else {
      backend.remove(reader)
      return GatewayAnswer(events: nil)
    }
    return GatewayAnswer { exchange in
      defer { backend.remove(reader) }
      while let events = await reader.next() {
        // A keep-alive is an event too: a revoked key is noticed within its interval.
        guard backend.keys.isCurrent(call.key) else { return }
        var part = Part()
        for event in events {
          part.append(event)
          // A client that does not read holds little more than that.
          if part.buffer.readableBytes >= GatewayLimits.streamPartBytes { try await part.write(to: exchange, backend) }
        }
        try await part.write(to: exchange, backend)
        await exchange.letOthersRun()
      }
    }
  }

  /// Events that are written together.
  private struct Part {
    private(set) var buffer = ByteBuffer()
    private var written: [OutcomeDelivery] = []

    mutating func append(_ event: OutcomeEvent) {
      switch event {
      case .keepAlive: buffer.writeString(":\n\n")
      case .outcome(let offset, let body, let delivery):
        buffer.writeString("id: \(offset)\ndata: ")
        // Replaces line breaks between JSON tokens by spaces: a line break would end the event's data.
        buffer.writeBytes(body.lazy.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
        buffer.writeString("\n\n")
        written.append(delivery)
      }
    }

    mutating func write(to exchange: GatewayExchange, _ backend: GatewayBackend) async throws {
      guard buffer.readableBytes > 0 else { return }
      let part = self
      self = Part()
      try await exchange.write(part.buffer)
      backend.acknowledge(part.written)
    }
  }

  private static func problem(_ refusal: OutcomeRefusal, after: Int64?) -> Problem {
    switch refusal {
    case .tooManyReaders: Problem(.unavailable, "there are too many readers of outcomes; try again later")
    case .tooManyOfKey(let maximum):
      Problem(.overRate, "the key has \(maximum) readers of outcomes, its maximum (gateway.readers_per_key_max)")
    case .tooManyOfApp:
      Problem(.overRate, "the app has too many readers of outcomes beside those of others: close some")
    case .noLog: Problem(.notFound, "there is no log of outcomes: results.log is false")
    case .disconnected: Problem(.unavailable, "RabbitMQ is not connected; try again")
    case .beyondEnd:
      Problem(
        .notFound, "the log of outcomes has no event \(after ?? 0) yet: send the id of an event, or -1 for all events")
    }
  }
}
