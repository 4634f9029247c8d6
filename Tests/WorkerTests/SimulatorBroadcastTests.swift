import APNsSimulator
import PushCore
import Testing

/// The simulator's answers to broadcasts and to channel management.
struct SimulatorBroadcastTests {
  typealias R = SimulatorRequests

  struct Row: Sendable, CustomTestStringConvertible {
    let name: String
    let request: SimulatedRequest
    let answer: String

    init(_ name: String, _ request: SimulatedRequest, _ answer: String) {
      self.name = name
      self.request = request
      self.answer = answer
    }

    var testDescription: String { "\(name) → \(answer)" }
  }

  static let plain = "AAAAAAAAAAAAAAAAAAAAAA=="
  static let stored = "BBBBBBBBBBBBBBBBBBBBBA=="

  private func service() -> SimulatedService {
    var service = R.service()
    service.channels.add(ChannelStore.Channel(id: SimulatorBroadcastTests.plain, storage: .none), to: R.app)
    service.channels.add(ChannelStore.Channel(id: SimulatorBroadcastTests.stored, storage: .mostRecent), to: R.app)
    service.channels.disabledApps = ["com.example.old"]
    return service
  }

  private func text(_ answer: SimulatedAnswer) -> String {
    answer.reason.map { "\(answer.status) \($0)" } ?? String(answer.status)
  }

  private static func payload(_ members: String) -> String { #"{"aps":{"timestamp":1795266000,\#(members)}}"# }

  static let broadcastRows: [Row] = [
    Row("in order", R.broadcast(), "200"),
    Row("GET", R.broadcast(method: "GET"), "405 MethodNotAllowed"),
    Row("path without app", R.broadcast(path: "/4/broadcasts/apps/"), "404 BadPath"),
    Row("path too long", R.broadcast(path: "/4/broadcasts/apps/a/b"), "404 BadPath"),
    Row("topic with suffix in the path", R.broadcast(path: "/4/broadcasts/apps/\(R.app).voip"), "400 BadRequestParams"),
    Row("no credential", R.broadcast(["authorization": nil]), "403 MissingProviderToken"),
    Row(
      "key of another topic",
      R.broadcast(
        ["authorization": "bearer " + R.token(key: "TOPIC00001")], path: "/4/broadcasts/apps/com.example.other"),
      "403 TopicMismatch"),
    Row("a topic header", R.broadcast(["apns-topic": R.app]), "400 BadRequestParams"),
    Row("request id no UUID", R.broadcast(["apns-request-id": "1"]), "400 BadMessageId"),
    Row("no request id", R.broadcast(["apns-request-id": nil]), "200"),
    Row("no push type", R.broadcast(["apns-push-type": nil]), "400 MissingPushType"),
    Row("push type alert", R.broadcast(["apns-push-type": "alert"]), "400 InvalidPushType"),
    Row("priority 1", R.broadcast(["apns-priority": "1"]), "400 BadPriority"),
    Row("no priority", R.broadcast(["apns-priority": nil]), "400 BadPriority"),
    Row("priority 5", R.broadcast(["apns-priority": "5"]), "200"),
    Row("no channel", R.broadcast(["apns-channel-id": nil]), "400 MissingChannelId"),
    Row("channel not base64", R.broadcast(["apns-channel-id": "###"]), "400 BadChannelId"),
    Row("channel unknown", R.broadcast(["apns-channel-id": "CCCCCCCCCCCCCCCCCCCCCA=="]), "400 ChannelNotRegistered"),
    Row("feature not enabled", R.broadcast(path: "/4/broadcasts/apps/com.example.old"), "400 FeatureNotEnabled"),
    Row("no expiration", R.broadcast(["apns-expiration": nil]), "400 BadExpirationDate"),
    Row("stored where nothing is", R.broadcast(["apns-expiration": "1795267000"]), "400 BadExpirationDate"),
    Row(
      "stored for 8 hours", R.broadcast(["apns-channel-id": stored, "apns-expiration": "1795294800"]), "200"),
    Row(
      "stored for longer", R.broadcast(["apns-channel-id": stored, "apns-expiration": "1795294801"]),
      "400 BadExpirationDate"),
    Row("empty", R.broadcast(payload: ""), "400 PayloadEmpty"),
    Row("too large", R.broadcast(payload: String(repeating: " ", count: 5121)), "413 PayloadTooLarge"),
    Row("start", R.broadcast(payload: payload(#""event":"start","content-state":{}"#)), "400 BadRequestPayload"),
    Row("end", R.broadcast(payload: payload(#""event":"end""#)), "200"),
    Row("an alert", R.broadcast(payload: R.alert), "400 BadRequestPayload"),
  ]

  @Test(arguments: broadcastRows)
  func broadcasts(_ row: Row) {
    var service = self.service()
    var identity = ConnectionIdentity()
    #expect(text(service.answer(row.request, at: .send, identity: &identity, now: R.start)) == row.answer)
  }

  static let all = "/1/apps/\(R.app)/all-channels"

  static let channelRows: [Row] = [
    Row("create", R.channel(), "201"),
    Row("PUT", R.channel(method: "PUT"), "405 MethodNotAllowed"),
    Row("no such path", R.channel(path: "/1/apps/\(R.app)"), "404 BadPath"),
    Row("a device's path", R.channel(path: "/3/device/" + R.deviceToken), "404 BadPath"),
    Row("no credential", R.channel(["authorization": nil]), "403 MissingProviderToken"),
    Row("request id no UUID", R.channel(["apns-request-id": "x"]), "400 BadMessageId"),
    Row("no JSON", R.channel(payload: "x"), "400 BadRequestPayload"),
    Row("no policy", R.channel(payload: #"{"push-type":"LiveActivity"}"#), "400 MissingChannelQueueSize"),
    Row(
      "policy 2", R.channel(payload: #"{"push-type":"LiveActivity","message-storage-policy":2}"#),
      "400 BadRequestPayload"),
    Row("no push type", R.channel(payload: #"{"message-storage-policy":1}"#), "400 MissingPushType"),
    Row(
      "another push type", R.channel(payload: #"{"message-storage-policy":1,"push-type":"Alert"}"#),
      "400 InvalidPushType"),
    Row("read", R.channel(["apns-channel-id": plain], method: "GET", payload: ""), "200"),
    Row("read which", R.channel(method: "GET", payload: ""), "400 MissingChannelId"),
    Row("read not base64", R.channel(["apns-channel-id": "?"], method: "GET", payload: ""), "400 BadChannelId"),
    Row(
      "read unknown", R.channel(["apns-channel-id": "CCCCCCCCCCCCCCCCCCCCCA=="], method: "GET", payload: ""),
      "404 ChannelNotRegistered"),
    Row("delete", R.channel(["apns-channel-id": plain], method: "DELETE", payload: ""), "204"),
    Row("list", R.channel(method: "GET", path: all, payload: ""), "200"),
    Row("list by POST", R.channel(path: all), "405 MethodNotAllowed"),
    Row("feature not enabled", R.channel(path: "/1/apps/com.example.old/channels"), "400 FeatureNotEnabled"),
  ]

  @Test(arguments: channelRows)
  func channels(_ row: Row) {
    var service = self.service()
    var identity = ConnectionIdentity()
    #expect(text(service.answer(row.request, at: .manage, identity: &identity, now: R.start)) == row.answer)
  }

  @Test func aChannelsLife() throws {
    var service = R.service()
    var identity = ConnectionIdentity()
    func ask(_ request: SimulatedRequest) -> SimulatedAnswer {
      service.answer(request, at: .manage, identity: &identity, now: R.start)
    }
    let id = try #require(ask(R.channel()).fields.first { $0.name == "apns-channel-id" }?.value)
    let read = ask(R.channel(["apns-channel-id": id], method: "GET", payload: ""))
    #expect(String(decoding: read.bytes, as: UTF8.self) == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
    let list = ask(R.channel(method: "GET", path: SimulatorBroadcastTests.all, payload: ""))
    #expect(String(decoding: list.bytes, as: UTF8.self) == #"{"channels":["\#(id)"]}"#)
    #expect(ask(R.channel(["apns-channel-id": id], method: "DELETE", payload: "")).status == 204)
    #expect(text(ask(R.channel(["apns-channel-id": id], method: "DELETE", payload: ""))) == "404 ChannelNotRegistered")
  }

  @Test func tenThousandChannels() {
    var service = R.service()
    var identity = ConnectionIdentity()
    var created: Set<String> = []
    for _ in 0..<ChannelStore.channelsMaximum {
      let answer = service.answer(R.channel(), at: .manage, identity: &identity, now: R.start)
      guard answer.status == 201, let id = answer.fields.last?.value else { break }
      created.insert(id)
    }
    let next = service.answer(R.channel(), at: .manage, identity: &identity, now: R.start)
    let other = service.answer(
      R.channel(path: "/1/apps/com.example.other/channels"), at: .manage, identity: &identity, now: R.start)
    #expect(created.count == 10_000)
    #expect(text(next) == "400 CannotCreateChannelConfig")
    #expect(other.status == 201)
  }
}
