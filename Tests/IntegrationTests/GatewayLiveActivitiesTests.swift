import Foundation
import Glibc
import PushCore
import PushStores
import TestSupport
import Testing

/// The Live Activities API of the gateway: from a device's token to what the device shows, and what is refused.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct GatewayLiveActivitiesTests {
  private struct Answer: Decodable {
    struct Response: Decodable {
      let messages: [String]
      let unknown: [String: [String]]?

      private enum CodingKeys: String, CodingKey {
        case messages = "Messages"
        case unknown = "UnknownDevices"
      }
    }

    let code: Int
    let message: String
    let response: Response?

    private enum CodingKeys: String, CodingKey {
      case code = "status_code"
      case message = "status_message"
      case response
    }
  }

  /// What a simulated device shows.
  private struct Shown: Decodable {
    struct Activity: Decodable {
      let device: String
      let id: String?
      let state: String
      let content: [String: String]
      let attributes: [String: String]
      let attributesType: String
      let updateToken: String?

      private enum CodingKeys: String, CodingKey {
        case device, id, state, attributes
        case content = "content_state"
        case attributesType = "attributes_type"
        case updateToken = "update_token"
      }
    }

    let activities: [Activity]
  }

  private static let token = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"
  private static let startToken = "80aa" + String(repeating: "0", count: 156)
  private static let applications = """
    applications: {XXXXX-XXXXX: {app: com.example.app, id_attribute: activityId, default_alert: {title: Ride, body: "On its way"}}, \
    OTHER-OTHER: {app: com.example.other}, SAND0-BOX00: {app: com.example.app, environment: sandbox}}
    """

  /// The document's own examples, without their comments.
  private static func start(_ key: String) -> String {
    """
    { "request": { "application": "XXXXX-XXXXX", "auth": "\(key)", "notifications": [{ "live_activity": { \
    "content-state": { "emoji": ":wink:" }, "attributes-type": "LiveActivityAttributes", "attributes": { "name": "Apple" } }, \
    "live_activity_id": "unique UUID", "filter_code": "FILTER_NAME", "devices": [ "hwid_XXXX" ], "users": [ "user_XXXX" ] }] }}
    """
  }

  private static func update(_ key: String) -> String {
    """
    { "request": { "application": "XXXXX-XXXXX", "auth": "\(key)", "notifications": [{ "live_activity": { "event": "update", \
    "content-state": { "courierName": "NUMBER: 15", "deliveryStatus": "Done" }, "dismissal-date": 12345678 }, \
    "live_activity_id": "unique UUID" }] }}
    """
  }

  /// A notification that starts an activity.
  private static func starting(_ id: String, _ target: String) -> String {
    """
    {"live_activity":{"content-state":{"eta":"9"},"attributes-type":"Ride","attributes":{}},"live_activity_id":"\(id)",\
    "content":"Go",\(target)}
    """
  }

  private static func request(_ key: String, _ notifications: String..., application: String = "XXXXX-XXXXX") -> String
  {
    """
    {"request":{"application":"\(application)","auth":"\(key)","notifications":[\(notifications.joined(separator: ","))]}}
    """
  }

  private func post(
    _ world: GatewayWorld, _ method: String, _ body: String, headers: [String] = []
  ) throws -> LoopbackHTTP.Answer {
    let answer = try #require(
      LoopbackHTTP.request(
        "POST", "/json/1.3/\(method)", port: world.port, headers: headers, body: body, timeoutMilliseconds: 20_000),
      "\(world.process.log.suffix(2_000))")
    #expect(answer.headers["content-type"] == "application/json" && !answer.body.contains("base_url"))
    return answer
  }

  private func ask(
    _ world: GatewayWorld, _ method: String, _ body: String, headers: [String] = []
  ) throws -> Answer {
    let answer = try post(world, method, body, headers: headers)
    #expect(answer.status == 200, "\(answer.body)")
    return try JSONDecoder().decode(Answer.self, from: Data(answer.body.utf8))
  }

  /// A device's call is done.
  private func tell(_ world: GatewayWorld, _ key: String, _ method: String, _ members: String) throws {
    let body = #"{"request":{"application":"XXXXX-XXXXX","hwid":"hwid_XXXX",\#(members)}}"#
    let answer = try ask(world, method, body, headers: ["Authorization: Token \(key)"])
    #expect(answer.code == 200 && answer.response == nil, "\(method): \(answer.message)")
  }

  /// Waits until a device shows such an activity.
  private func wait(
    _ worker: WorkerWorld, _ location: SourceLocation = #_sourceLocation, for condition: (Shown.Activity) -> Bool
  ) throws -> Shown.Activity {
    var text = ""
    let found = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 50) { () -> Shown.Activity? in
      text = LoopbackHTTP.request("GET", "/activities", port: worker.simulator.controlPort)?.body ?? ""
      return try? JSONDecoder().decode(Shown.self, from: Data(text.utf8)).activities.first(where: condition)
    }
    return try #require(found, "\(text)", sourceLocation: location)
  }

  @Test func anActivityFromRegistrationToEnd() throws {
    let worker = try WorkerWorld("gateway-activities")
    let process = try worker.startWorker()
    defer { _ = process.drain(seconds: 30) }
    let world = try GatewayWorld("activities", prefix: worker.prefix, further: [Self.applications])
    let send = try world.makeKey(["--app", "com.example.app", "--scope", "send"])
    let register = try world.makeKey(["--app", "com.example.app", "--scope", "register"])
    try tell(
      world, register, "registerDevice",
      #""push_token":"\#(Self.token)","device_type":1,"language":"en","timezone":3600,"tags":{"plan":"gold"}"#)
    try tell(world, register, "registerUser", #""userId":"user_XXXX""#)
    try tell(
      world, register, "setActivityPushToStartToken", #""activity_push_to_start_token":"\#(Self.startToken)""#)
    let registry = try AudienceRegistry(url: RedisServer.shared().url, prefix: "\(worker.prefix):")
    let isKnown = ChildProcess.poll(timeoutMilliseconds: 40_000, everyMilliseconds: 50) { () -> Bool? in
      let found = try? registry.wait {
        registry.devices.members(of: .hasPushToStart("*"), limit: 1, in: registry.scope, then: $0)
      }
      return found?.isEmpty == false ? true : nil
    }
    try #require(isKnown == true, "\(process.log.suffix(3_000))")

    let started = try ask(world, "startLiveActivity", Self.start(send))
    #expect(started.code == 200 && started.response?.messages.count == 1 && started.response?.unknown == nil)
    let shown = try wait(worker) { $0.id == "unique UUID" && $0.updateToken != nil }
    #expect(shown.state == "active" && shown.content == ["emoji": ":wink:"])
    #expect(shown.attributes == ["name": "Apple", "activityId": "unique UUID"])
    #expect(shown.attributesType == "LiveActivityAttributes")
    let token = try #require(shown.updateToken)
    try tell(world, register, "setActivityToken", #""activity_id":"unique UUID","activity_token":"\#(token)""#)
    #expect(try ask(world, "updateLiveActivity", Self.update(send)).code == 200)
    let updated = try wait(worker) { $0.id == "unique UUID" && $0.content["deliveryStatus"] == "Done" }
    #expect(updated.content == ["courierName": "NUMBER: 15", "deliveryStatus": "Done"] && updated.state == "active")
    let end = Self.request(send, #"{"live_activity":{"event":"end"},"live_activity_id":"unique UUID"}"#)
    #expect(try ask(world, "updateLiveActivity", end).code == 200)
    _ = try wait(worker) { $0.id == "unique UUID" && ["ended", "dismissed"].contains($0.state) }

    // Two at once, one of them also for those whom nobody knows; and a filter that stands in the request.
    let two = try ask(
      world, "startLiveActivity",
      Self.request(
        send, Self.starting("ride-1", #""devices":["hwid_XXXX","nobody","\#(Self.token)"]"#),
        Self.starting("ride-2", #""filter":"T(\"plan\", EQ, \"gold\")""#),
        Self.starting("ride-3", #""users":["no one"]"#)))
    #expect(two.code == 200 && Set(two.response?.messages ?? []).count == 3, "\(two.message)")
    #expect(two.response?.unknown == ["": ["nobody", "no one"]])
    for id in ["ride-1", "ride-2"] {
      let shown = try wait(worker) { $0.id == id }
      #expect(shown.content == ["eta": "9"] && shown.device == updated.device)
    }

    let metrics = LoopbackHTTP.request("GET", "/metrics", port: world.port)?.body ?? ""
    #expect(metrics.contains("herald_gateway_ignored_fields_total{field=\"dismissal-date\"} 1\n"))
    #expect(metrics.contains("herald_gateway_requests_total{route=\"/json/1.3/{method}\",status=\"200\"} 8\n"))
    for secret in [send, register, Self.token, Self.startToken, token, "NUMBER: 15", "hwid_XXXX"] {
      #expect(!world.process.log.contains(secret))
    }
  }

  /// Each is newer than those before it, whichever reaches a worker first.
  @Test func notificationsOfOneRequest_keepTheirOrder() throws {
    struct Job: Decodable {
      struct Payload: Decodable {
        struct APS: Decodable {
          let content: [String: String]

          private enum CodingKeys: String, CodingKey { case content = "content-state" }
        }

        let aps: APS
      }

      let sequence: Int64?
      let payload: Payload
    }
    let world = try GatewayWorld("activities-order", further: [Self.applications])
    let updates = (1...5).map {
      #"{"live_activity":{"event":"update","content-state":{"eta":"\#($0)"}},"live_activity_id":"ride-1"}"#
    }
    for _ in 1...2 {
      let body = Self.request(world.key, updates.joined(separator: ","))
      #expect(try ask(world, "updateLiveActivity", body).code == 200)
    }
    let jobs = try world.takeJobs().map { try JSONDecoder().decode(Job.self, from: Data($0.body)) }
    let ordered = try jobs.sorted { try #require($0.sequence) < #require($1.sequence) }
    #expect(ordered.map { $0.payload.aps.content["eta"] } == ["1", "2", "3", "4", "5", "1", "2", "3", "4", "5"])
    #expect(Set(jobs.compactMap(\.sequence)).count == 10)
  }

  /// An activity that could never be updated is not started.
  @Test func anIdWithControlCharacters_isRefused() throws {
    let world = try GatewayWorld("activities-id", further: [Self.applications])
    for id in [#"a\tb"#, #"a\nb"#, #"a\u0000b"#] {
      let call = try ask(
        world, "startLiveActivity", Self.request(world.key, Self.starting(id, #""devices":["d"]"#)))
      #expect(call.code == 210 && call.response == nil, "\(id): \(call.message)")
      let job = try world.ask(
        "POST", "/v1/jobs",
        body: """
          {"push_type":"liveactivity","to":{"activity":"\(id)"},\
          "payload":{"aps":{"event":"update","timestamp":1796000000,"content-state":{}}}}
          """)
      #expect(job.status == 422 || job.status == 400, "\(job.body)")
      #expect(job.body.contains("control characters"), "\(id): \(job.body)")
    }
    #expect(try world.takeJobs().isEmpty)
  }

  @Test func refusalsAreJSONAndNothingIsPublished() throws {
    let world = try GatewayWorld("activities-wrong", further: [Self.applications])
    func fault(_ method: String, _ body: String) throws -> String {
      let answer = try ask(world, method, body)
      #expect(answer.response == nil)
      return "\(answer.code) \(answer.message)"
    }
    let forbidden = "403 Token restrictions forbid this operation"
    let device = Self.starting("ride-1", #""devices":["d"]"#)
    let wrong = String(world.key.dropLast()) + (world.key.hasSuffix("a") ? "b" : "a")
    for key in ["", "x", wrong] {
      #expect(try fault("startLiveActivity", Self.request(key, device)) == "210 Account not found")
    }
    // Without a key, nobody hears what else is wrong.
    #expect(try fault("startLiveActivity", Self.request(wrong, "{}")) == "210 Account not found")
    let register = try world.makeKey(["--app", "com.example.app", "--scope", "register"])
    let other = try world.makeKey(["--app", "com.example.other", "--scope", "send,register"])
    let sandbox = try world.makeKey(["--app", "com.example.app", "--environment", "sandbox", "--scope", "send"])
    for key in [register, other, sandbox] {
      #expect(try fault("startLiveActivity", Self.request(key, device)) == forbidden)
    }
    #expect(
      try fault(
        "registerUser",
        #"{"request":{"application":"XXXXX-XXXXX","hwid":"h","userId":"u","auth":"\#(other)"}}"#) == forbidden)
    #expect(
      try fault("startLiveActivity", Self.request(world.key, device, application: "OTHER-OTHER")) == forbidden)
    #expect(
      try fault("startLiveActivity", Self.request(world.key, device, application: "NOBOD-Y0000"))
        == "210 Application not found")
    #expect(try fault("startLiveActivity", Self.request(world.key)) == "210 No notifications")
    #expect(try fault("startLiveActivity", "{}") == "210 request is missing")
    #expect(try fault("createMessage", "{}").hasPrefix("210 createMessage is not supported"))
    for filter in [#""filter_code":"absent""#, #""filter":{"segment":"absent"}"#] {
      #expect(
        try fault("startLiveActivity", Self.request(world.key, device, Self.starting("r", filter)))
          == "210 Filter not found: absent")
    }

    let comment = try post(world, "startLiveActivity", #"{ "request": { "application": "X", // required"#)
    #expect(comment.status == 400 && comment.body.contains("comments are not JSON"))
    let compressed = try post(world, "startLiveActivity", "{}", headers: ["Content-Encoding: gzip"])
    #expect(compressed.status == 415 && compressed.body.hasPrefix("{\"status_code\":415,"))
    let get = try #require(LoopbackHTTP.request("GET", "/json/1.3/startLiveActivity", port: world.port))
    #expect(get.status == 405 && get.headers["allow"] == "POST" && get.body.hasPrefix("{\"status_code\":405,"))
    let large = try RawSocket(port: world.port)
    large.send(Array("POST /json/1.3/setTags HTTP/1.1\r\nHost: a\r\nContent-Length: 1048577\r\n\r\n".utf8))
    var text = ""
    _ = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 10) { () -> Bool? in
      text += String(decoding: large.receive(milliseconds: 100), as: UTF8.self)
      return large.isAtEnd ? true : nil
    }
    #expect(text.hasPrefix("HTTP/1.1 413") && text.contains("{\"status_code\":413,"), "\(text)")

    #expect(try world.takeJobs().isEmpty)
    #expect(try world.outside.drain("\(world.prefix).registrations").isEmpty)
    let metrics = LoopbackHTTP.request("GET", "/metrics", port: world.port)?.body ?? ""
    #expect(metrics.contains("herald_gateway_keys_refused_total 4\n"))
    #expect(!world.process.log.contains("hk_"))

    // The key's rate is that of the whole gateway.
    let limited = try world.makeKey(["--app", "com.example.app", "--rate", "2"])
    #expect(try world.ask("POST", "/v1/jobs", key: limited, body: world.job()).status == 202)
    let last = try post(world, "startLiveActivity", Self.request(limited, device))
    #expect(last.status == 200 && last.headers["ratelimit"]?.hasPrefix("\"key\";r=0;t=") ?? false)
    let over = try post(world, "startLiveActivity", Self.request(limited, device))
    #expect(over.status == 429 && over.body.hasPrefix("{\"status_code\":429,"))
    let seconds = try #require(over.headers["retry-after"].flatMap { Int($0) })
    #expect((1...30).contains(seconds))
    #expect(try world.takeJobs().count == 2)
  }

  @Test func withoutRabbitMQTheClientIsAskedToRetry() throws {
    let rabbitmq = try RabbitMQServer()
    let world = try GatewayWorld("activities-broker", rabbitmq: rabbitmq, further: [Self.applications])
    let start = Self.request(world.key, Self.starting("ride-1", #""devices":["d"]"#))
    func isRefused() throws {
      let answer = try post(world, "startLiveActivity", start)
      #expect(answer.status == 503 && answer.headers["retry-after"] == "5", "\(answer.body)")
      #expect(answer.body.hasPrefix("{\"status_code\":503,"))
    }
    // While it is paused, nothing is confirmed.
    rabbitmq.pause()
    try isRefused()
    rabbitmq.resume()
    #expect(world.waitUntilReady(seconds: 60), "\(world.process.log)")
    #expect(try ask(world, "startLiveActivity", start).code == 200)
    let jobs = try world.takeJobs()
    #expect(!jobs.isEmpty && jobs.allSatisfy { $0.deliveryMode == 2 && $0.messageID != nil })
    rabbitmq.kill()
    #expect(
      ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        LoopbackHTTP.request("GET", "/readyz", port: world.port)?.status == 503 ? true : nil
      } == true)
    try isRefused()
  }
}
