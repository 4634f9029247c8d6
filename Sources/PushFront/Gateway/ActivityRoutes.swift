import PushCore
import PushOperations
import PushStores

/// `/v1/activities/{id}`: a Live Activity and its devices.
enum ActivityRoutes {
  static func get(_ text: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    guard let id = ActivityID(text) else {
      throw Problem(.badRequest, "an activity's id \(NameText.rule)")
    }
    let scope = try call.scope()
    let limit = try call.limit()
    let cursor = try call.parameter("after") { ActivityRegistry.MemberCursor($0) }
    let found = try await call.services.ask { backend, then in
      backend.activity(id, in: scope, from: cursor, limit: limit, then: then)
    }
    guard let found else { throw Problem(.notFound, "the activity \(ActivityRefusal.unknown.text)") }
    let table = ActivitiesTable(scope, now: call.services.unixMilliseconds)
    guard let json = try? table.jsonLine(found) else {
      throw Problem(.internalError, "the activity could not be written as JSON")
    }
    return GatewayReply(200, json)
  }
}
