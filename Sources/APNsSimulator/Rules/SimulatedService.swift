package import PushCore

/// The simulated Apple as a value: it decides every answer, and uses no sockets.
///
/// `answer` is its main function: it takes a request, what its connection has proved so far, and the time, and returns status, reason and
/// headers.
package struct SimulatedService: Sendable {
  package let environment: APNsEnvironment
  package var tokens: ProviderTokenRules
  package var devices = DeviceRegistry()
  package var channels: ChannelStore
  /// The devices, for Live Activities.
  package var activities: SimulatedDevices
  /// Off: any payload within the size limit passes.
  package var checksPayloads = true
  /// Off: requests without any credential pass.
  package var checksCredentials = true
  private var random: SeededBits

  package init(environment: APNsEnvironment, seed: UInt64) {
    self.environment = environment
    tokens = ProviderTokenRules(environment: environment)
    random = SeededBits(seed: seed)
    channels = ChannelStore()
    activities = SimulatedDevices(environment: environment.name, seed: seed)
  }

  /// The service that a request came to: each has a port of its own.
  package enum Endpoint: Sendable {
    /// Notifications to devices and broadcasts.
    case send
    /// Channel management.
    case manage
  }

  package mutating func answer(
    _ request: SimulatedRequest, at endpoint: Endpoint, identity: inout ConnectionIdentity, now: Now
  ) -> SimulatedAnswer {
    let segments = request.pathSegments
    var answer: SimulatedAnswer
    switch endpoint {
    case .send:
      if segments.first == "3" {
        answer = deviceAnswer(request, segments, identity: &identity, now: now)
        identify(&answer, by: "apns-id", request)
        if environment == .sandbox { answer.fields.append(.init(name: "apns-unique-id", value: newUUID())) }
      } else if segments.first == "4" {
        answer = broadcastAnswer(request, segments, identity: &identity, now: now)
        identify(&answer, by: "apns-request-id", request)
        if environment == .sandbox { answer.fields.append(.init(name: "apns-unique-id", value: newUUID())) }
      } else {
        answer = SimulatedAnswer(status: 404, reason: "BadPath")
        identify(&answer, by: "apns-id", request)
      }
    case .manage:
      answer = channelAnswer(request, segments, identity: &identity, now: now)
      identify(&answer, by: "apns-request-id", request)
    }
    return answer
  }

  /// The credential: a certificate that allows the topic, or a provider token, which APNs ignores if there is a certificate.
  mutating func credentialRefusal(
    _ request: SimulatedRequest, topic: String?, app: String?, identity: inout ConnectionIdentity,
    isBroadcast: Bool, now: Now
  ) -> SimulatedAnswer? {
    if let certificate = identity.certificate {
      guard let topic else { return nil }
      return certificate.allows(topic) ? nil : .badRequest("TopicDisallowed")
    }
    if !checksCredentials { return nil }
    return tokens.refusal(
      authorization: request["authorization"], app: app, identity: &identity, isBroadcast: isBroadcast, now: now)
  }

  mutating func newUUID() -> String {
    // Version 4, variant 1.
    let high = random.next() & ~0xF000 | 0x4000
    let low = random.next() & ~(3 << 62) | (2 << 62)
    return Ledger.text(of: (high, low))
  }

  mutating func randomBits() -> UInt64 { random.next() }

  private mutating func identify(_ answer: inout SimulatedAnswer, by name: String, _ request: SimulatedRequest) {
    let given = request[name].flatMap { HeaderRules.isUUID($0) ? $0 : nil }
    answer.fields.insert(.init(name: name, value: given ?? newUUID()), at: 0)
  }
}
