import PushCore

/// `POST /3/device/<token>`: the rules in the order in which they are checked.
extension SimulatedService {
  mutating func deviceAnswer(
    _ request: SimulatedRequest, _ segments: [Substring], identity: inout ConnectionIdentity, now: Now
  ) -> SimulatedAnswer {
    // The request line.
    guard segments.count >= 2, segments[1] == "device" else { return SimulatedAnswer(status: 404, reason: "BadPath") }
    guard request.method == "POST" else { return SimulatedAnswer(status: 405, reason: "MethodNotAllowed") }
    guard segments.count >= 3, !segments[2].isEmpty else { return .badRequest("MissingDeviceToken") }
    guard segments.count == 3 else { return SimulatedAnswer(status: 404, reason: "BadPath") }
    if request.hasDuplicates { return .badRequest("DuplicateHeaders") }

    // The topic determines what the credential must allow.
    let topic = request["apns-topic"] ?? identity.certificate?.soleTopic
    let pushType = request["apns-push-type"].map { (name: $0, rule: PushTypeRule.byName[$0]) }
    if let refusal = credentialRefusal(
      request, topic: nil, app: topic.map(SimulatedService.app(ofTopic:)), identity: &identity, isBroadcast: false,
      now: now)
    {
      return refusal
    }
    if let refusal = headerRefusal(request) { return refusal }
    guard let topic, !topic.isEmpty else { return .badRequest("MissingTopic") }
    guard HeaderRules.isTopic(topic) else { return .badRequest("BadTopic") }
    if let certificate = identity.certificate, !certificate.allows(topic) { return .badRequest("TopicDisallowed") }

    // Push type × topic × priority × credential. A request without a type counts as an alert.
    if let pushType, pushType.rule == nil { return .badRequest("InvalidPushType") }
    let rule = pushType?.rule ?? PushTypeRule.all[0]
    if pushType != nil, !rule.takes(topic: topic) { return .badRequest("InvalidPushType") }
    if pushType != nil, !rule.takes(priority: request["apns-priority"].flatMap(HeaderRules.priority)) {
      return .badRequest("BadPriority")
    }
    if rule.demandsImmediateExpiration, let text = request["apns-expiration"], HeaderRules.expiration(text) != 0 {
      return .badRequest("BadExpirationDate")
    }
    if rule.forbidsCollapseID, request["apns-collapse-id"] != nil { return .badRequest("BadCollapseId") }
    switch rule.credential {
    case .any: break
    case .tokenOnly: if identity.certificate != nil { return .forbidden("Forbidden") }
    case .certificateOnly: if identity.certificate == nil, checksCredentials { return .forbidden("Forbidden") }
    }

    // The payload.
    if request.bodyCount == 0 { return .badRequest("PayloadEmpty") }
    if request.bodyCount > rule.payloadBytesMaximum { return SimulatedAnswer(status: 413, reason: "PayloadTooLarge") }
    if checksPayloads {
      // Without a type only the alert's own rule is skipped: older senders sent everything that way.
      let name = pushType?.name ?? "untyped"
      if let reason = SimulatedPayloadRules.refusal(of: request.body, pushType: name, topic: topic) {
        return .badRequest(reason)
      }
    }

    // The device.
    guard HeaderRules.isDeviceToken(segments[2]) else { return .badRequest("BadDeviceToken") }
    identity.isValidated = true
    let token = segments[2].lowercased()
    activities.advance(to: now)
    return devices.refusal(token: token, topic: topic, now: now) ?? activities.refusal(token: token, topic: topic)
      ?? .accepted
  }

  /// The form of the headers shared by notifications to devices and broadcasts.
  func headerRefusal(_ request: SimulatedRequest) -> SimulatedAnswer? {
    if let text = request["apns-id"], !HeaderRules.isUUID(text) { return .badRequest("BadMessageId") }
    if let text = request["apns-expiration"], HeaderRules.expiration(text) == nil {
      return .badRequest("BadExpirationDate")
    }
    if let text = request["apns-priority"], HeaderRules.priority(text) == nil { return .badRequest("BadPriority") }
    if let text = request["apns-collapse-id"], text.utf8.count > HeaderRules.collapseIDBytesMaximum {
      return .badRequest("BadCollapseId")
    }
    return nil
  }

  /// The bundle id of a topic: keys are bound to it.
  static func app(ofTopic topic: String) -> String {
    for suffix in PushTypeRule.suffixes where topic.hasSuffix(suffix) { return String(topic.dropLast(suffix.count)) }
    return topic
  }
}
