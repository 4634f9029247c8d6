import PushCore
import PushOperations

/// `/v1/devices/{id}` and `/v1/users/{id}`: publish to the queue of registrations.
enum RegistrationRoutes {
  static func put(_ device: String, _ call: GatewayCall) async throws -> GatewayReply {
    try call.requireJSON()
    let scope = try call.scope()
    let body = try await call.body()
    let at = await call.services.backend.takeTime()
    let registration = try await call.work(on: body.bytes.count) { () throws(Problem) in
      try RegistrationIntake.device(device, body: body.bytes, in: scope, at: at)
    }
    try await call.services.publish(GatewayMessage(.registration, registration), of: call.key)
    return GatewayReply(202, "{\"device\":\(GatewayReply.quoted(device))}")
  }

  static func delete(user: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    let scope = try call.scope()
    let registration = try RegistrationIntake.forget(user: user, in: scope, at: await call.services.backend.takeTime())
    try await call.services.publish(GatewayMessage(.registration, registration), of: call.key)
    return GatewayReply(202, "{\"user\":\(GatewayReply.quoted(user))}")
  }
}
