/// Every row of the table of answers.
import PushCore
import Testing

@Suite struct VerdictTests {
  struct Row: Sendable {
    var status: UInt16
    var reason: String
    var verdict: Verdict

    init(_ status: UInt16, _ reason: String, _ verdict: Verdict) {
      self.status = status
      self.reason = reason
      self.verdict = verdict
    }
  }

  static let ourFault = Verdict(.reject, notes: .ourFault)

  static let table: [Row] =
    [
      "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "InvalidPushType", "PayloadEmpty",
      "DuplicateHeaders",
      "MissingDeviceToken", "MissingChannelId", "BadRequestParams", "BadRequestPayload", "MissingPushType",
      "MissingChannelQueueSize",
    ].map { Row(400, $0, ourFault) } + [
      Row(400, "BadChannelId", Verdict(.reject)),
      Row(400, "BadDeviceToken", Verdict(.reject, pause: .topicAndClassWhenNoneAccepted, notes: .badToken)),
      Row(400, "DeviceTokenNotForTopic", Verdict(.reject, notes: .badToken)),
      Row(400, "BadTopic", Verdict(.reject, pause: .topicWhenRepeated)),
      Row(400, "MissingTopic", Verdict(.reject, pause: .topicWhenRepeated)),
      Row(400, "TopicDisallowed", Verdict(.reject, pause: .topicWhenRepeated)),
      Row(400, "IdleTimeout", Verdict(.resend, connection: .close)),
      Row(403, "ExpiredProviderToken", Verdict(.renew, connection: .close, token: .renew)),
      Row(403, "InvalidProviderToken", Verdict(.retry, token: .replaceIfMisdated, pause: .credential)),
      Row(403, "MissingProviderToken", Verdict(.retry, pause: .credential)),
      Row(403, "UnrelatedKeyIdInToken", Verdict(.resend, connection: .close)),
      Row(403, "BadEnvironmentKeyIdInToken", Verdict(.retry, pause: .credentialInEnvironment)),
      Row(403, "BadEnvironmentKeyInToken", Verdict(.retry, pause: .credentialInEnvironment)),
      Row(403, "BadCertificate", Verdict(.retry, connection: .close, pause: .credential)),
      Row(403, "BadCertificateEnvironment", Verdict(.retry, connection: .close, pause: .credential)),
      Row(403, "Forbidden", Verdict(.reject, pause: .credentialWhenRepeated)),
      Row(404, "BadPath", ourFault), Row(405, "MethodNotAllowed", ourFault),
      Row(410, "Unregistered", Verdict(.dead)), Row(410, "ExpiredToken", Verdict(.dead)),
      Row(413, "PayloadTooLarge", ourFault),
      Row(429, "TooManyRequests", Verdict(.retry, notes: .tightenDevice)),
      Row(429, "TooManyProviderTokenUpdates", Verdict(.hold, connection: .close, token: .keepOlder)),
      Row(500, "InternalServerError", Verdict(.retry)),
      Row(503, "ServiceUnavailable", Verdict(.retry, connection: .fewerStreams)),
      Row(503, "Service Unavailable", Verdict(.retry, connection: .fewerStreams)),
      Row(503, "Shutdown", Verdict(.resend, connection: .close)),
      Row(400, "FeatureNotEnabled", Verdict(.retry, pause: .broadcastsOfApp)),
      Row(400, "ChannelNotRegistered", Verdict(.reject, notes: .deadChannel)),
      Row(404, "ChannelNotRegistered", Verdict(.reject, notes: .deadChannel)),
      Row(400, "CannotCreateChannelConfig", Verdict(.reject, pause: .channelCreation)),
      Row(403, "TopicMismatch", Verdict(.retry, pause: .credentialForApp)),
    ]

  @Test(arguments: table) func judges(_ row: Row) {
    let reason = APNsReason(Array(row.reason.utf8).span)
    #expect(Verdict(status: row.status, reason: reason) == row.verdict, "\(row.status) \(row.reason)")
  }

  @Test func judgesEveryKnownReason() {
    let named = Set(VerdictTests.table.map { APNsReason(Array($0.reason.utf8).span) })
    for reason in APNsReason.allKnown { #expect(named.contains(reason), "\(reason) has no row") }
  }

  @Test func acceptsWithoutAReason() {
    #expect(Verdict(status: 200, reason: nil) == Verdict(.accept))
    #expect(!Verdict(status: 200, reason: nil).concernsService)
  }

  /// What a status says by itself.
  static let byStatus: [(status: UInt16, verdict: Verdict)] =
    [400, 401, 402, 406, 409, 411, 415, 418, 422, 431, 451, 499].map { ($0, Verdict(.reject)) } + [
      (403, Verdict(.reject, pause: .credentialWhenRepeated)), (404, ourFault), (405, ourFault), (413, ourFault),
      (408, Verdict(.retry, connection: .close)), (421, Verdict(.retry, connection: .close)), (425, Verdict(.retry)),
      (410, Verdict(.dead)), (429, Verdict(.retry, notes: .tightenDevice)), (500, Verdict(.retry)),
      (501, Verdict(.retry)), (502, Verdict(.retry)), (503, Verdict(.retry, connection: .fewerStreams)),
      (504, Verdict(.retry)), (599, Verdict(.retry)), (999, Verdict(.retry)), (0, Verdict(.retry)),
      (100, Verdict(.retry)), (302, Verdict(.retry)),
    ]

  @Test(arguments: byStatus) func aStatusDecidesWithoutAListedReason(_ status: UInt16, _ verdict: Verdict) {
    var verdict = verdict
    verdict.notes.insert(.unknownReason)
    for reason in [nil, "SomethingNew", "", "x?"] {
      let reason = reason.map { APNsReason(Array($0.utf8).span) }
      #expect(Verdict(status: status, reason: reason) == verdict)
    }
  }

  /// APNs' time, the job's registration time, and the resulting action for the token.
  static let registrations: [(timestamp: Int64?, registered: Int64?, fate: Verdict.Fate)] = [
    (1000, 1001, .unregisteredBefore), (1000, 1000, .dead), (1000, 999, .dead), (1000, nil, .dead), (nil, 1001, .dead),
    (nil, nil, .dead), (0, 1, .unregisteredBefore), (.min, .max, .unregisteredBefore), (.max, .min, .dead),
  ]

  @Test(arguments: [APNsReason.unregistered, .expiredToken, .other("Uninstalled"), nil])
  func aDeviceThatRegisteredLaterIsNotMarked(reason: APNsReason?) {
    for row in VerdictTests.registrations {
      let verdict = Verdict(
        status: 410, reason: reason, unregisteredAt: row.timestamp, tokenRegisteredAt: row.registered)
      #expect(verdict.fate == row.fate && !verdict.concernsService, "\(row)")
      var answer = PushAnswer(ticket: Ticket(index: 1, generation: 1), kind: .response)
      answer.status = 410
      answer.reason = reason
      answer.unregisteredAt = row.timestamp
      #expect(Verdict(answer, tokenRegisteredAt: row.registered, resends: 0) == verdict)
    }
  }

  @Test func resendsAreBounded() {
    for resends in UInt8(0)..<10 {
      let shutdown = Verdict(status: 503, reason: .shutdown, resends: resends)
      #expect(shutdown.fate == (resends < Verdict.resendsMaximum ? .resend : .retry))
      #expect(shutdown.connection == .close)
      let expired = Verdict(status: 403, reason: .expiredProviderToken, resends: resends)
      #expect(expired.fate == (resends == 0 ? .renew : .retry))
      #expect(expired.token == .renew)
    }
  }

  @Test func judgesWhatHasNoAnswer() {
    let ticket = Ticket(index: 1, generation: 1)
    func verdict(_ kind: PushAnswer.Kind, _ resends: UInt8 = 0) -> Verdict {
      Verdict(PushAnswer(ticket: ticket, kind: kind), tokenRegisteredAt: nil, resends: resends)
    }
    #expect(verdict(.notProcessed) == Verdict(.resend))
    #expect(verdict(.notProcessed, Verdict.resendsMaximum) == Verdict(.retry))
    #expect(verdict(.lost) == Verdict(.sendOnceMore, notes: .ambiguous))
    #expect(verdict(.timedOut) == Verdict(.sendOnceMore, notes: .ambiguous))
    #expect(verdict(.lost, 1) == Verdict(.retry, notes: .ambiguous))
    #expect(verdict(.timedOut, 1) == Verdict(.retry, notes: .ambiguous))
    var answer = PushAnswer(ticket: ticket, kind: .response)
    answer.status = 410
    answer.unregisteredAt = 5
    #expect(Verdict(answer, tokenRegisteredAt: 6, resends: 0).fate == .unregisteredBefore)
  }

  // MARK: Reasons

  @Test func readsAndWritesReasons() {
    for reason in APNsReason.allKnown {
      var output: [UInt8] = []
      reason.writeName(to: &output)
      #expect(APNsReason(output.span) == reason)
      if case .other = reason { Issue.record("a known reason is not other") }
    }
    #expect(APNsReason(Array("badDeviceToken".utf8).span) == .other("badDeviceToken"))
    #expect(APNsReason(Array("".utf8).span) == .other(""))
    #expect(APNsReason(Array("a\nb\u{7F}é".utf8).span) == .other("a?b???"))
    #expect(
      APNsReason(Array(String(repeating: "x", count: 500).utf8).span) == .other(String(repeating: "x", count: 64)))
  }
}
