import PushCore
import PushOperations
import PushStores

/// `/v1/segments/{code}`: stored filters.
enum SegmentRoutes {
  static func put(_ text: String, _ call: GatewayCall) async throws -> GatewayReply {
    try call.requireJSON()
    let code = try code(text)
    let scope = try call.scope()
    let body = try await call.body()
    let filter = try await call.work(on: body.bytes.count) { () throws(Problem) in
      try SegmentIntake.filter(body.bytes)
    }
    try await call.services.ask { backend, then in backend.put(code, filter, in: scope, then: then) }
    return try await get(text, call)
  }

  static func get(_ text: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    let code = try code(text)
    let scope = try call.scope()
    let entry = try await call.services.ask { backend, then in backend.segment(code, in: scope, then: then) }
    guard let entry else { throw unknown }
    let filter = String(decoding: entry.filter.json, as: UTF8.self)
    return GatewayReply(200, "{\"segment\":\"\(code)\",\"filter\":\(filter),\"put_at\":\(entry.putAt)}")
  }

  static func delete(_ text: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    let code = try code(text)
    let scope = try call.scope()
    switch try await call.services.ask({ backend, then in backend.delete(code, in: scope, then: then) }) {
    case .deleted: return GatewayReply(204, [], contentType: "")
    case .unknown: throw unknown
    case .isNamed(let users):
      let shown = users.prefix(10).map(\.text).joined(separator: ", ")
      let more = users.count > 10 ? " and \(users.count - 10) more" : ""
      throw Problem(.conflict, "these segments name it: \(shown)\(more)")
    }
  }

  static func count(_ text: String, _ call: GatewayCall) async throws(Problem) -> GatewayReply {
    let code = try code(text)
    let scope = try call.scope()
    guard try await call.services.ask({ backend, then in backend.segment(code, in: scope, then: then) }) != nil else {
      throw unknown
    }
    let count = try await call.services.ask { backend, then in backend.count(code, in: scope, then: then) }
    return GatewayReply(200, "{\"segment\":\"\(code)\",\"devices\":\(count)}")
  }

  private static func code(_ text: String) throws(Problem) -> SegmentCode {
    guard let code = SegmentCode(text) else { throw Problem(.badRequest, "a segment's code \(SegmentCode.rule)") }
    return code
  }

  private static let unknown = Problem(.notFound, "no segment has this code")
}
