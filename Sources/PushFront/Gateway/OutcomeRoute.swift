import NIOCore
import PushCore
import PushOperations

/// `GET /v1/outcomes`: an app's outcomes as server-sent events. The id of an event is the outcome's offset in the results log.
enum OutcomeRoute {
  static func get(_ call: GatewayCall) async throws(Problem) -> GatewayAnswer {
    let scope = try call.scope()
    let after = try call.after()
    let backend = call.services.backend
    guard let events = await backend.outcomes(of: scope, from: after.map { $0 + 1 }) else {
      throw Problem(.unavailable, "there are too many readers of outcomes; try again later")
    }
    return GatewayAnswer { exchange in
      for await event in events {
        switch event {
        case .keepAlive: try await exchange.write(ByteBuffer(string: ":\n\n"))
        case .outcome(let offset, let body, let tag, let channel):
          var buffer = ByteBuffer(string: "id: \(offset)\ndata: ")
          // Replaces line breaks between JSON tokens by spaces: a line break would end the event's data.
          buffer.writeBytes(body.map { $0 == 0x0A || $0 == 0x0D ? 0x20 : $0 })
          buffer.writeString("\n\n")
          try await exchange.write(buffer)
          backend.acknowledge(tag, channel: channel)
        }
      }
    }
  }
}
