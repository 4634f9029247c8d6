import PushCore
import PushOperations

/// `/v1/activities/{id}`: a Live Activity and its devices.
enum ActivityRoutes {
  static func get(_ text: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    guard let id = ActivityID(text) else {
      throw Problem(.badRequest, "an activity's id \(NameText.rule)")
    }
    let scope = try call.scope()
    let shown = try await call.services.ask { backend, then in backend.activity(id, in: scope, then: then) }
    guard let shown else { throw Problem(.notFound, "the activity \(ActivityRefusal.unknown.text)") }
    let table = ActivitiesTable(scope, now: GatewayClock.unixMilliseconds)
    guard let json = try? table.jsonLine(shown) else {
      throw Problem(.internalError, "the activity could not be written as JSON")
    }
    return GatewayReply(200, json)
  }
}
