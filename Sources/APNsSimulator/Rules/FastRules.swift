/// The fast mode's rules: anything well-formed is accepted.
extension SimulatedService {
  mutating func fastAnswer(_ request: SimulatedRequest, at endpoint: Endpoint) -> SimulatedAnswer {
    let segments = request.pathSegments
    var answer = SimulatedAnswer.accepted
    if endpoint == .send, segments.count != (segments.first == "4" ? 4 : 3) {
      answer = SimulatedAnswer(status: 404, reason: "BadPath")
    } else if request.method != "POST" {
      answer = SimulatedAnswer(status: 405, reason: "MethodNotAllowed")
    } else if request.bodyCount == 0 {
      answer = .badRequest("PayloadEmpty")
    } else if request.bodyCount > PushTypeRule.largePayloadBytesMaximum {
      answer = SimulatedAnswer(status: 413, reason: "PayloadTooLarge")
    } else if segments.first == "3", !HeaderRules.isDeviceToken(segments[2]) {
      answer = .badRequest("BadDeviceToken")
    }
    answer.fields.append(.init(name: "apns-id", value: request["apns-id"] ?? newUUID()))
    return answer
  }
}
