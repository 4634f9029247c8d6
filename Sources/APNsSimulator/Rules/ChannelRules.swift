import PushCore

/// Channel management, on its own port: create, read, delete and list.
extension SimulatedService {
  mutating func channelAnswer(
    _ request: SimulatedRequest, _ segments: [Substring], identity: inout ConnectionIdentity, now: Now
  ) -> SimulatedAnswer {
    guard segments.count == 4, segments[0] == "1", segments[1] == "apps", !segments[2].isEmpty,
      segments[3] == "channels" || segments[3] == "all-channels"
    else { return SimulatedAnswer(status: 404, reason: "BadPath") }
    let isList = segments[3] == "all-channels"
    let isAllowed = isList ? request.method == "GET" : ["POST", "GET", "DELETE"].contains(request.method)
    guard isAllowed else { return SimulatedAnswer(status: 405, reason: "MethodNotAllowed") }
    if request.hasDuplicates { return .badRequest("DuplicateHeaders") }
    let app = String(segments[2])
    guard HeaderRules.isTopic(app), SimulatedService.app(ofTopic: app) == app else {
      return .badRequest("BadRequestParams")
    }
    if let refusal = credentialRefusal(request, topic: app, app: app, identity: &identity, isBroadcast: true, now: now)
    {
      return refusal
    }
    if let text = request["apns-request-id"], !HeaderRules.isUUID(text) { return .badRequest("BadMessageId") }
    if channels.disabledApps.contains(app) { return .badRequest("FeatureNotEnabled") }
    identity.isValidated = true
    if isList { return list(app) }
    if request.method == "POST" { return create(app, request) }
    guard let id = request["apns-channel-id"] else { return .badRequest("MissingChannelId") }
    guard HeaderRules.isBase64(id) else { return .badRequest("BadChannelId") }
    guard let channel = channels.channel(id, of: app) else {
      return SimulatedAnswer(status: 404, reason: "ChannelNotRegistered")
    }
    if request.method == "DELETE" {
      _ = channels.delete(id, of: app)
      return SimulatedAnswer(status: 204)
    }
    return read(channel)
  }

  private mutating func create(_ app: String, _ request: SimulatedRequest) -> SimulatedAnswer {
    guard let body = JSONValue(request.body), case .object = body else { return .badRequest("BadRequestPayload") }
    guard let pushType = body["push-type"] else { return .badRequest("MissingPushType") }
    guard pushType.string == "LiveActivity" else { return .badRequest("InvalidPushType") }
    guard let policy = body["message-storage-policy"] else { return .badRequest("MissingChannelQueueSize") }
    guard let number = policy.integer, let storage = ChannelStore.Storage(rawValue: Int(number)) else {
      return .badRequest("BadRequestPayload")
    }
    guard let channel = channels.create(app: app, storage: storage, bits: (randomBits(), randomBits())) else {
      return .badRequest("CannotCreateChannelConfig")
    }
    var answer = SimulatedAnswer(status: 201)
    answer.fields.append(.init(name: "apns-channel-id", value: channel.id))
    return answer
  }

  private func read(_ channel: ChannelStore.Channel) -> SimulatedAnswer {
    var json = JSONText()
    json.beginObject()
    json.field("message-storage-policy", channel.storage.rawValue)
    json.field("push-type", "LiveActivity")
    json.endObject()
    var answer = SimulatedAnswer(status: 200)
    answer.body = json.bytes
    return answer
  }

  private func list(_ app: String) -> SimulatedAnswer {
    var json = JSONText()
    json.beginObject()
    json.key("channels")
    json.beginArray()
    for channel in channels.all(of: app) { json.value(channel.id) }
    json.endArray()
    json.endObject()
    var answer = SimulatedAnswer(status: 200)
    answer.body = json.bytes
    return answer
  }
}
