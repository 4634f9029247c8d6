import APNsSimulator
import Foundation
import PushCore
import TestSupport
import Testing

/// Herald's rules against the strict simulator's, which were written independently: the simulator accepts what Herald accepts,
/// and refuses what Herald refuses, with the reason that Herald predicted.
///
/// `disagreements` has the exceptions, each with its cause.
@Suite struct PredictionTests {
  /// Why the two judge a job differently although both are right.
  enum Disagreement: String, CaseIterable {
    case flagAsBoolean = "APNs' documents show 1; devices take true as well, and many senders write it"
    case emptyPayload = "kinds without keys of Apple's: what is right is between the app and its own server"
    case voipAPS = "a call's payload is the app's own, aps included; the simulator looks into aps everywhere"
    case fraction = "a time with a fraction: devices take it, the simulator wants whole seconds"
    case nullKey = "null counts as absent here; the simulator takes it for a value"
    case emptyContainer = "an empty container-identifier names no container; the simulator looks at its type alone"
    case alertKeys =
      "a start's alert with title-loc-key and loc-key, as in other alerts; the simulator wants title and body"
    case ownPushType = "an unlisted push type passes with its own topic: APNs gains types faster than senders do"
  }

  private static let channel = "AAAAAAAAAAAAAAAAAAAAAA=="

  /// The simulator's answer to the job's request, sent without Herald's check.
  private func answer(_ text: String, isBroadcast: Bool) throws -> SimulatedAnswer {
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any])
    let parsed = ParsedForPrediction(text)
    let app = object["app"] as? String ?? ""
    let pushType = object["push_type"] as? String ?? ""
    let rules = PushType.named.first { $0.name == pushType }?.rules
    var fields: [SimulatedRequest.Field] = []
    func add(_ name: String, _ value: Any?) {
      guard let value else { return }
      fields.append(.init(name: name, value: value as? String ?? "\(value)"))
    }
    add("apns-push-type", pushType)
    add("apns-priority", object["priority"] ?? rules?.priorityDefault ?? (isBroadcast ? 10 : nil))
    add("apns-expiration", object["expiration"] ?? rules?.expirationOnly ?? (isBroadcast ? 0 : nil))
    add("apns-collapse-id", object["collapse_id"])
    let to = object["to"] as? [String: Any] ?? [:]
    let path: String
    if isBroadcast {
      path = "/4/broadcasts/apps/" + app
      add("apns-channel-id", to["channel"])
      add("apns-request-id", SimulatorRequests.apnsID)
    } else {
      path = "/3/device/" + (to["token"] as? String ?? "")
      add("apns-topic", object["topic"] ?? app + (rules?.topicSuffix ?? ""))
      add("apns-id", SimulatorRequests.apnsID)
    }
    var service = SimulatorRequests.service()
    var identity = ConnectionIdentity()
    if rules?.credential == .certificateOnly {
      identity.certificate = ClientCertificate(topics: [app], subjectID: nil)
    } else {
      add("authorization", "bearer " + SimulatorRequests.token())
    }
    if isBroadcast {
      let made = service.answer(
        SimulatorRequests.channel(), at: .manage, identity: &identity, now: SimulatorRequests.start)
      let id = try #require(made.fields.first { $0.name == "apns-channel-id" }?.value)
      // A job for an existing channel.
      if let place = fields.firstIndex(where: { $0.name == "apns-channel-id" }), fields[place].value == Self.channel {
        fields[place].value = id
      }
    }
    let request = SimulatedRequest(method: "POST", path: path, fields: fields, body: parsed.payload)
    return service.answer(request, at: .send, identity: &identity, now: SimulatorRequests.start)
  }

  private func job(_ pushType: String, _ payload: String, _ changes: [(String, String?)] = []) -> String {
    var fields: [(String, String?)] = [
      ("id", "\"\(SimulatorRequests.apnsID)\""), ("app", "\"com.example.app\""), ("push_type", "\"\(pushType)\""),
      ("to", "{\"token\":\"\(SimulatorRequests.deviceToken)\"}"), ("payload", payload),
    ]
    for (key, value) in changes {
      if let place = fields.firstIndex(where: { $0.0 == key }) {
        fields[place].1 = value
      } else {
        fields.append((key, value))
      }
    }
    return "{" + fields.compactMap { key, value in value.map { "\"\(key)\":\($0)" } }.joined(separator: ",") + "}"
  }

  // MARK: What Herald takes

  /// The cause if the simulator refuses a job that Herald accepts; nil: it must accept.
  private func disagreement(_ type: String, _ payload: String) -> Disagreement? {
    if payload.contains("null") && !payload.contains("new-key") { return .nullKey }
    if type == "voip" && payload.contains("\"aps\":[]") { return .voipAPS }
    if payload == "{}" && ["location", "voip"].contains(type) { return .emptyPayload }
    if payload.contains("\"content-available\":true") || payload.contains("\"critical\":true") { return .flagAsBoolean }
    if payload.contains("\"stale-date\":1796000000.25") { return .fraction }
    if payload.contains("\"start\"") && payload.contains("title-loc-key") { return .alertKeys }
    return nil
  }

  @Test(arguments: PayloadExamples.taken) func takenPayloadsAreAccepted(_ type: String, _ payload: String) throws {
    let text = job(type, payload)
    #expect(ParsedForPrediction(text).error == nil)
    let answer = try answer(text, isBroadcast: false)
    if let cause = disagreement(type, payload) {
      #expect(answer.status == 400, "they agree now: \(cause.rawValue)")
    } else {
      #expect(answer == .accepted || answer.isSuccess, "\(type) \(payload): \(answer.reason ?? "")")
    }
  }

  @Test func everyDisagreementHasAnExample() {
    var seen = Set(PayloadExamples.taken.compactMap { disagreement($0, $1)?.rawValue })
    // Other tests in this file cover these.
    seen.formUnion([Disagreement.ownPushType.rawValue, Disagreement.emptyContainer.rawValue])
    #expect(seen == Set(Disagreement.allCases.map(\.rawValue)))
  }

  private static let audienceToken = String(repeating: "ab", count: 32)

  @Test func validExamplesOfTheSchemaAreAccepted() throws {
    for line in try Self.lines("job.valid.jsonl") {
      var object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      let to = try #require(object["to"] as? [String: Any])
      let isBroadcast = to["channel"] != nil
      if isBroadcast { object["to"] = ["channel": Self.channel] }
      if let tokens = to["tokens"] as? [String] { object["to"] = ["token": tokens[0]] }
      if to["token"] == nil, to["tokens"] == nil, !isBroadcast {
        // The job as it is sent to one device of the registry.
        #expect(ParsedForPrediction(String(line)).error == nil, "\(line)")
        object["to"] = ["token": Self.audienceToken]
        for key in ["activity", "fallback", "dry_run"] { object[key] = nil }
        if var payload = object["payload"] as? [String: Any], var aps = payload["aps"] as? [String: Any],
          object["push_type"] as? String == "liveactivity"
        {
          aps["timestamp"] = 1_796_000_000
          payload["aps"] = aps
          object["payload"] = payload
        }
      }
      let text = String(decoding: try JSONSerialization.data(withJSONObject: object), as: UTF8.self)
      #expect(ParsedForPrediction(text).error == nil, "\(line)")
      let answer = try answer(text, isBroadcast: isBroadcast)
      let isUnlisted = !PushType.named.contains { $0.name == object["push_type"] as? String }
      #expect(isUnlisted ? answer.reason == "InvalidPushType" : answer.isSuccess, "\(answer.reason ?? ""): \(line)")
    }
  }

  // MARK: What Herald refuses

  @Test(arguments: PayloadExamples.refused)
  func refusedPayloadsAreRefused(_ type: String, _ payload: String, _ field: String, _ rule: String) throws {
    if payload.contains("\"container-identifier\":\"\"") {
      #expect(try answer(job(type, payload), isBroadcast: false).isSuccess, "\(Disagreement.emptyContainer.rawValue)")
    } else if payload.contains(":null") {
      // Both refuse it; the simulator sees a value of the wrong type, Herald sees none.
      #expect(try answer(job(type, payload), isBroadcast: false).reason == "BadRequestPayload")
    } else {
      try expectPrediction(job(type, payload), isBroadcast: false)
    }
  }

  @Test func refusedBroadcastsAreRefused() throws {
    for (payload, _, _) in PayloadExamples.refusedBroadcasts {
      try expectPrediction(
        job("liveactivity", payload, [("to", "{\"channel\":\"\(Self.channel)\"}")]), isBroadcast: true)
    }
  }

  @Test(arguments: RequestExamples.refused) func refusedRequestsAreRefused(_ example: RequestExamples.Example) throws {
    try expectPrediction(
      job(example.pushType, example.payload, example.changes),
      isBroadcast: example.changes.contains { $0.1?.contains("channel") == true })
  }

  @Test func invalidExamplesOfTheSchemaAreRefused() throws {
    for line in try Self.lines("job.invalid.jsonl") {
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      var instance = try #require(object["instance"] as? [String: Any])
      let isBroadcast = (instance["to"] as? [String: Any])?["channel"] != nil
      if isBroadcast { instance["to"] = ["channel": Self.channel] }
      let text = String(decoding: try JSONSerialization.data(withJSONObject: instance), as: UTF8.self)
      try expectPrediction(text, isBroadcast: isBroadcast, object["why"] as? String ?? "")
    }
  }

  /// The simulator answers as Herald predicted.
  private func expectPrediction(_ text: String, isBroadcast: Bool, _ why: String = "") throws {
    let error = try #require(ParsedForPrediction(text).error, "Herald takes \(text) \(why)")
    switch error.answer {
    case .noRequest:
      break
    case .takes:
      let answer = try answer(text, isBroadcast: isBroadcast)
      #expect(answer.isSuccess, "\(error.detail): \(answer.reason ?? "") \(why)")
    case .refuses(let reason):
      let answer = try answer(text, isBroadcast: isBroadcast)
      #expect(answer.reason == reason.name, "\(error.detail) \(why): \(text.prefix(300))")
      #expect(answer.status == (reason == .payloadTooLarge ? 413 : 400))
    }
  }

  // MARK: Credentials

  /// Which kind of credential may send which type.
  @Test func credentialKindsAgree() {
    #expect(Set(PushTypeRule.all.map(\.name)) == Set(PushType.named.map(\.name)))
    for type in PushType.named {
      guard let rule = PushTypeRule.byName[type.name] else { continue }
      let rules = type.rules
      #expect(rule.topicSuffix == rules.topicSuffix, "\(type)")
      #expect(rule.priorities == rules.priorities.map(Int.init), "\(type)")
      #expect(rule.payloadBytesMaximum == rules.payloadBytesMaximum, "\(type)")
      #expect(rule.demandsImmediateExpiration == (rules.expirationOnly == 0), "\(type)")
      #expect(rule.forbidsCollapseID == !rules.takesCollapseID, "\(type)")
      switch (rule.credential, rules.credential) {
      case (.any, .any), (.tokenOnly, .tokenOnly), (.certificateOnly, .certificateOnly): break
      default: Issue.record("\(type): \(rule.credential), \(rules.credential)")
      }
    }
  }

  private static func lines(_ name: String) throws -> [Substring] {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../config/schemas/examples/\(name)")
    return try String(contentsOf: path, encoding: .utf8).split(separator: "\n")
  }
}

/// A job's payload, byte for byte, and what Herald says of the job.
struct ParsedForPrediction {
  private(set) var error: JobError?
  private(set) var payload: [UInt8] = []

  init(_ text: String) {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = Array(text.utf8)
    job.bodyCount = job.bytes.count
    let none: [UInt8] = Array("message".utf8)
    do throws(JobError) { try parser.parse(into: &job, fallbackID: none.span) } catch { self.error = error }
    payload = Array(job.bytes[job.payload.range])
  }
}
