import APNsSimulator
import PushCore
import Testing

/// Apple's page "Sending channel management requests to APNs", row by row: the allowed values of each field in each of the four
/// requests. The requests are raw because our client cannot write most wrong ones. Rules of single requests are in
/// `SimulatorBroadcastTests`; how our client reads the answers is in `ChannelClientTests`.
struct ChannelDocumentTests {
  typealias R = SimulatorRequests

  /// One of the page's four requests.
  enum Kind: CaseIterable {
    case create, read, delete, list

    var method: String {
      switch self {
      case .create: "POST"
      case .read, .list: "GET"
      case .delete: "DELETE"
      }
    }

    var path: String { "/1/apps/\(R.app)/" + (self == .list ? "all-channels" : "channels") }
    var body: String { self == .create ? #"{"message-storage-policy": 1, "push-type": "LiveActivity"}"# : "" }
    var hasChannelID: Bool { self == .read || self == .delete }

    var status: Int {
      switch self {
      case .create: 201
      case .read, .list: 200
      case .delete: 204
      }
    }
  }

  static let id = "dHN0LXNyY2gtY2hubA=="

  private func ask(
    _ kind: Kind, _ changes: [String: String?] = [:], method: String? = nil, path: String? = nil, body: String? = nil,
    certificate: ClientCertificate? = nil
  ) -> SimulatedAnswer {
    var service = R.service()
    service.channels.add(ChannelStore.Channel(id: ChannelDocumentTests.id, storage: .none), to: R.app)
    var identity = ConnectionIdentity(certificate: certificate)
    var headers = changes
    if kind.hasChannelID, headers["apns-channel-id"] == nil { headers["apns-channel-id"] = ChannelDocumentTests.id }
    let request = R.channel(
      headers, method: method ?? kind.method, path: path ?? kind.path, payload: body ?? kind.body)
    return service.answer(request, at: .manage, identity: &identity, now: R.start)
  }

  private func text(_ answer: SimulatedAnswer) -> String {
    answer.reason.map { "\(answer.status) \($0)" } ?? String(answer.status)
  }

  private func field(_ name: String, of answer: SimulatedAnswer) -> String? {
    answer.fields.first { $0.name == name }?.value
  }

  @Test(arguments: Kind.allCases) func inOrder(_ kind: Kind) {
    let answer = ask(kind)
    #expect(text(answer) == String(kind.status))
    #expect(field("apns-request-id", of: answer) == R.apnsID)
    #expect((field("apns-channel-id", of: answer) != nil) == (kind == .create), "only a create answers with an id")
    let body = String(decoding: answer.bytes, as: UTF8.self)
    switch kind {
    case .create, .delete: #expect(body.isEmpty)
    case .read: #expect(body == #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#)
    case .list: #expect(body == #"{"channels":["\#(ChannelDocumentTests.id)"]}"#)
    }
  }

  @Test(arguments: Kind.allCases) func methodAndPath(_ kind: Kind) {
    #expect(text(ask(kind, method: "PUT")) == "405 MethodNotAllowed")
    #expect(text(ask(kind, path: "/1/apps/\(R.app)/channel")) == "404 BadPath")
    #expect(text(ask(kind, path: "/2/apps/\(R.app)/channels")) == "404 BadPath")
    #expect(text(ask(kind, path: kind.path.replacing(R.app, with: R.app + ".voip"))) == "400 BadRequestParams")
  }

  @Test(arguments: Kind.allCases) func authorization(_ kind: Kind) {
    #expect(text(ask(kind, ["authorization": nil as String?])) == "403 MissingProviderToken")
    #expect(text(ask(kind, ["authorization": "bearer x"])) == "403 InvalidProviderToken")
    #expect(text(ask(kind, ["authorization": "bearer " + R.token(age: 4000)])) == "403 ExpiredProviderToken")
    #expect(text(ask(kind, ["authorization": "bearer " + R.token(signature: 1)])) == "403 InvalidProviderToken")
    #expect(
      text(ask(kind, ["authorization": "bearer " + R.token(key: "SANDBOX001")])) == "403 BadEnvironmentKeyIdInToken")
    let topicKey = "bearer " + R.token(key: "TOPIC00001")
    #expect(text(ask(kind, ["authorization": topicKey])) == String(kind.status))
    let other = kind.path.replacing(R.app, with: "com.example.other")
    #expect(text(ask(kind, ["authorization": topicKey], path: other)) == "403 TopicMismatch")
  }

  /// "APNs ignores this header if you use certificate-based authentication."
  @Test(arguments: Kind.allCases) func certificates(_ kind: Kind) {
    let certificate = ClientCertificate(topics: [R.app], subjectID: R.app)
    #expect(text(ask(kind, ["authorization": nil as String?], certificate: certificate)) == String(kind.status))
    #expect(text(ask(kind, ["authorization": "bearer x"], certificate: certificate)) == String(kind.status))
    let other = ClientCertificate(topics: ["com.example.other"], subjectID: nil)
    #expect(text(ask(kind, certificate: other)) == "400 TopicDisallowed")
  }

  @Test(arguments: Kind.allCases) func requestID(_ kind: Kind) throws {
    let made = try #require(field("apns-request-id", of: ask(kind, ["apns-request-id": nil as String?])))
    #expect(UUIDValue(made.utf8.span) != nil, "APNs makes one where none was given")
    #expect(text(ask(kind, ["apns-request-id": "2288cf3f70d846a697d7dd5d00867127"])) == "400 BadMessageId")
    let refused = ask(kind, ["authorization": nil as String?])
    #expect(field("apns-request-id", of: refused) == R.apnsID, "an error names its request")
  }

  @Test(arguments: [Kind.read, .delete]) func channelID(_ kind: Kind) {
    let without = R.channel(method: kind.method, path: kind.path, payload: "")
    var service = R.service()
    var identity = ConnectionIdentity()
    #expect(
      text(service.answer(without, at: .manage, identity: &identity, now: R.start)) == "400 MissingChannelId")
    #expect(text(ask(kind, ["apns-channel-id": "###"])) == "400 BadChannelId")
    #expect(text(ask(kind, ["apns-channel-id": "AAAA"])) == "404 ChannelNotRegistered")
    let other = kind.path.replacing(R.app, with: "com.example.other")
    #expect(text(ask(kind, path: other)) == "404 ChannelNotRegistered", "a channel is its app's alone")
  }

  @Test(arguments: [
    (#"{"message-storage-policy": 0, "push-type": "LiveActivity"}"#, "201"),
    (#"{"message-storage-policy": 2, "push-type": "LiveActivity"}"#, "400 BadRequestPayload"),
    (#"{"message-storage-policy": "1", "push-type": "LiveActivity"}"#, "400 BadRequestPayload"),
    (#"{"push-type": "LiveActivity"}"#, "400 MissingChannelQueueSize"),
    (#"{"message-storage-policy": 1}"#, "400 MissingPushType"),
    (#"{"message-storage-policy": 1, "push-type": "liveactivity"}"#, "400 InvalidPushType"),
    ("[]", "400 BadRequestPayload"), ("", "400 BadRequestPayload"),
  ]) func bodyOfACreate(_ body: String, _ answer: String) {
    #expect(text(ask(.create, body: body)) == answer)
  }
}
