import PushCore

/// `POST /4/broadcasts/apps/<bundle id>`: a Live Activity's update or end for all subscribers of a channel.
extension SimulatedService {
  /// A channel with storage keeps a message for at most this long.
  static let storedSecondsMaximum: Int64 = 8 * 3600

  mutating func broadcastAnswer(
    _ request: SimulatedRequest, _ segments: [Substring], identity: inout ConnectionIdentity, now: Now
  ) -> SimulatedAnswer {
    guard segments.count == 4, segments[1] == "broadcasts", segments[2] == "apps", !segments[3].isEmpty else {
      return SimulatedAnswer(status: 404, reason: "BadPath")
    }
    guard request.method == "POST" else { return SimulatedAnswer(status: 405, reason: "MethodNotAllowed") }
    if request.hasDuplicates { return .badRequest("DuplicateHeaders") }
    let app = String(segments[3])
    guard HeaderRules.isTopic(app), SimulatedService.app(ofTopic: app) == app else {
      return .badRequest("BadRequestParams")
    }
    if let refusal = credentialRefusal(
      request, topic: app, app: app, identity: &identity, isBroadcast: true, now: now)
    {
      return refusal
    }
    if let text = request["apns-request-id"], !HeaderRules.isUUID(text) { return .badRequest("BadMessageId") }
    if request["apns-topic"] != nil { return .badRequest("BadRequestParams") }
    if let refusal = headerRefusal(request) { return refusal }
    guard let pushType = request["apns-push-type"] else { return .badRequest("MissingPushType") }
    guard pushType.lowercased() == "liveactivity" else { return .badRequest("InvalidPushType") }
    guard let priority = request["apns-priority"], priority != "1" else { return .badRequest("BadPriority") }
    guard let channelID = request["apns-channel-id"] else { return .badRequest("MissingChannelId") }
    guard HeaderRules.isBase64(channelID) else { return .badRequest("BadChannelId") }
    if channels.disabledApps.contains(app) { return .badRequest("FeatureNotEnabled") }
    guard let channel = channels.channel(channelID, of: app) else { return .badRequest("ChannelNotRegistered") }
    guard let text = request["apns-expiration"], let expiration = HeaderRules.expiration(text) else {
      return .badRequest("BadExpirationDate")
    }
    switch channel.storage {
    case .none: if expiration != 0 { return .badRequest("BadExpirationDate") }
    case .mostRecent:
      if expiration != 0, expiration &- now.unixSeconds > SimulatedService.storedSecondsMaximum {
        return .badRequest("BadExpirationDate")
      }
    }
    if request.bodyCount == 0 { return .badRequest("PayloadEmpty") }
    if request.bodyCount > PushTypeRule.largePayloadBytesMaximum {
      return SimulatedAnswer(status: 413, reason: "PayloadTooLarge")
    }
    if checksPayloads, let reason = SimulatedPayloadRules.broadcastRefusal(of: request.body) {
      return .badRequest(reason)
    }
    identity.isValidated = true
    return .accepted
  }
}
