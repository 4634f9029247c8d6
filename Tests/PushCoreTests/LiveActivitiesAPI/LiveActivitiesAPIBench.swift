import Foundation
import PushCore
import TestSupport
import Testing

/// The API with two applications, one request after another, and what comes of it.
struct LiveActivitiesAPIBench {
  static let now: Int64 = 1_796_000_000_500
  static let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

  static var tokenBytes: [UInt8] { Hex.bytes(token.utf8.span) ?? [] }

  private let api: LiveActivitiesAPI
  private var random = SeededRandom(seed: 1)

  /// `XXXXX-XXXXX` has no alert of its own; `ALERT-ALERT` has one, in the sandbox.
  init(allowsEveryone: Bool = false) throws {
    let production = try #require(AppScope(app: "com.example.app", environment: .production))
    let sandbox = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    api = LiveActivitiesAPI(
      applications: [
        "XXXXX-XXXXX": LiveActivitiesApplication(
          scope: production, idAttribute: ActivityIDAttribute("pushwoosh.activityId")),
        "ALERT-ALERT": LiveActivitiesApplication(
          scope: sandbox, defaultAlert: LiveActivitiesApplication.Alert(title: "Ride", body: "On its way")),
      ], allowsEveryone: allowsEveryone)
  }

  mutating func read(_ method: String, _ body: [UInt8], authorization: String? = nil) -> LiveActivitiesReading {
    api.read(
      method: method, body: body, authorization: authorization, now: LiveActivitiesAPIBench.now, random: &random)
  }

  mutating func read(_ method: String, _ body: String, authorization: String? = nil) -> LiveActivitiesReading {
    read(method, Array(body.utf8), authorization: authorization)
  }

  /// A plan whose messages the worker takes.
  mutating func plan(_ method: String, _ body: String) throws -> LiveActivitiesPlan {
    switch read(method, body).decision {
    case .plan(let plan):
      try LiveActivitiesAPIBench.check(plan)
      return plan
    case .answer(let answer): throw TestFailure("\(method) was refused: \(answer.text)")
    }
  }

  /// What a refused request is told: HTTP 200, 210 in the body.
  mutating func refusal(_ method: String, _ body: String) throws -> String {
    guard case .answer(let answer) = read(method, body).decision else {
      throw TestFailure("\(method) was taken: \(body)")
    }
    guard answer.status == 200 else { throw TestFailure("HTTP \(answer.status): \(answer.text)") }
    let parts = try answer.parts()
    guard parts.code == 210, parts.response == nil else { throw TestFailure("not refused as expected: \(answer.text)") }
    return parts.message
  }

  // MARK: - One notification

  /// A notification that starts an activity, with fields replaced or left out.
  static func start(_ changes: [String: String?] = [:], activity: [String: String?] = [:]) -> String {
    let activity = object(
      ["content-state": #"{"emoji":"😉"}"#, "attributes-type": #""LiveActivityAttributes""#, "attributes": "{}"],
      activity)
    return object(
      [
        "content": #""Your ride""#, "title": #""Ride""#, "live_activity": activity, "live_activity_id": #""ride-17""#,
        "devices": #"["hwid-1"]"#,
      ], changes)
  }

  static func update(_ changes: [String: String?] = [:], activity: [String: String?] = [:]) -> String {
    let activity = object(["event": #""update""#, "content-state": #"{"eta":15}"#], activity)
    return object(["live_activity": activity, "live_activity_id": #""ride-17""#], changes)
  }

  static func request(_ notifications: String..., application: String = "XXXXX-XXXXX") -> String {
    """
    {"request":{"application":"\(application)","auth":"key","notifications":[\(notifications.joined(separator: ","))]}}
    """
  }

  /// A device's call.
  static func call(_ changes: [String: String?] = [:]) -> String {
    let fields = ["application": #""XXXXX-XXXXX""#, "hwid": #""hwid-1""#, "auth": #""key""#]
    return "{\"request\":\(object(fields, changes))}"
  }

  /// Members sorted by name; nil leaves one out.
  private static func object(_ fields: [String: String], _ changes: [String: String?]) -> String {
    var fields: [String: String?] = fields
    fields.merge(changes) { _, new in new }
    let members = fields.sorted { $0.key < $1.key }.compactMap { key, value in value.map { "\"\(key)\":\($0)" } }
    return "{\(members.joined(separator: ","))}"
  }

  // MARK: - Checks

  /// The worker's own parsers take everything.
  static func check(_ plan: LiveActivitiesPlan) throws {
    for publication in plan.publications {
      switch publication {
      case .job(let id, _, let bytes):
        let parsed = Parsed(bytes: bytes)
        if let error = parsed.error { throw TestFailure("\(error.detail): \(String(decoding: bytes, as: UTF8.self))") }
        try #require(parsed.text(parsed.job.id) == id)
        try #require(parsed.text(parsed.job.app) == plan.scope.app)
        try #require(parsed.job.environment == plan.scope.environment)
        // What the worker reads of it before it goes out.
        _ = try ActivityPayload(Array(bytes[parsed.job.payload.range]))
      case .registration(let bytes):
        let registration = try RegistrationParser.parse(bytes, now: now)
        try #require(registration.scope == plan.scope)
        try #require(registration.at == now)
      }
    }
    for segment in plan.segments {
      try #require(try SegmentFilterParser.parse(segment.filter.json) == segment.filter)
    }
  }
}

extension LiveActivitiesPlan {
  /// Its jobs, parsed.
  var jobs: [Parsed] {
    publications.compactMap { if case .job(_, _, let bytes) = $0 { Parsed(bytes: bytes) } else { nil } }
  }

  /// Its only job, as text.
  func jobText() throws -> String {
    guard publications.count == 1, case .job(_, _, let bytes) = publications[0] else {
      throw TestFailure("no single job")
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// Its only registration.
  func registration() throws -> Registration {
    guard publications.count == 1, case .registration(let bytes) = publications[0] else {
      throw TestFailure("no single registration")
    }
    return try RegistrationParser.parse(bytes, now: LiveActivitiesAPIBench.now)
  }

  func device() throws -> DeviceRegistration {
    guard case .device(let device) = try registration().subject else { throw TestFailure("not of a device") }
    return device
  }
}

extension Parsed {
  /// The job's `to`, as text.
  var to: String { text(job.to) }
  var payload: String { text(job.payload) }
}

extension LiveActivitiesAnswer {
  var text: String { String(decoding: body, as: UTF8.self) }

  /// The three parts that every answer has, read by another parser.
  func parts() throws -> (code: Int, message: String, response: [String: Any]?) {
    let object = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
    try #require(Set(object.keys) == ["status_code", "status_message", "response"])
    let code = try #require(object["status_code"] as? Int)
    let message = try #require(object["status_message"] as? String)
    if object["response"] is NSNull { return (code, message, nil) }
    return (code, message, try #require(object["response"] as? [String: Any]))
  }
}
