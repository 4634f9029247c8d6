import Foundation
import PushCore
import PushNotifications
import Testing

/// The bytes of each kind of notification.
@Suite struct NotificationTests {
  private struct Data: Encodable, Sendable {
    var order = "1/2"
    var score = 1.5
  }

  private let then = Date(timeIntervalSince1970: 1_796_000_000.75)

  private func parsed(_ push: some PushNotification, app: String = "com.example.app") throws -> ParsedJob {
    try ParsedJob(Job(push, to: .device("00FC13ADFF785122"), of: app))
  }

  @Test func alertSaysAllThatItIsGiven() throws {
    let push = try AlertNotification(
      Alert(
        title: .localized(key: "T", arguments: ["a", "b"]), subtitle: "S \"quoted\"", body: .localized(key: "B"),
        launchImage: "L"),
      badge: 3, sound: .critical("x.caf", volume: 0.5), threadID: "t", category: "c", isMutable: true, wakesApp: true,
      targetContentID: "w", interruptionLevel: .timeSensitive, relevanceScore: 0.25, filterCriteria: "f",
      priority: .low, expiration: .at(then), collapseID: CollapseID("é-1"), data: Data())
    let job = try parsed(push)
    #expect(
      job.payload == """
        {"aps":{"alert":{"launch-image":"L","loc-key":"B","subtitle":"S \\"quoted\\"","title-loc-args":["a","b"],\
        "title-loc-key":"T"},"badge":3,"category":"c","content-available":1,"filter-criteria":"f",\
        "interruption-level":"time-sensitive","mutable-content":1,"relevance-score":0.25,\
        "sound":{"critical":1,"name":"x.caf","volume":0.5},"target-content-id":"w","thread-id":"t"},\
        "order":"1/2","score":1.5}
        """)
    #expect(job.job.priority == 1 && job.job.expiration == 1_796_000_000)
    #expect(job.text(job.job.collapseID) == "é-1" && job.text(job.job.topic) == "com.example.app")
    #expect(job.targets == ["00fc13adff785122"])
  }

  @Test func kindsWithLittleToSay() throws {
    #expect(try parsed(AlertNotification(badge: 0)).payload == #"{"aps":{"badge":0}}"#)
    #expect(try parsed(AlertNotification(sound: .default)).payload == #"{"aps":{"sound":"default"}}"#)
    #expect(try parsed(AlertNotification(Alert(body: "b"))).payload == #"{"aps":{"alert":{"body":"b"}}}"#)
    #expect(try parsed(WalletNotification(), app: "pass.com.example").payload == #"{"aps":{}}"#)
    #expect(try parsed(BackgroundNotification()).payload == #"{"aps":{"content-available":1}}"#)
    #expect(try parsed(BackgroundNotification()).job.priority == 5)
    #expect(try parsed(LocationNotification()).payload == #"{"aps":{}}"#)
    #expect(try parsed(WidgetsNotification()).payload == #"{"aps":{"content-changed":true}}"#)
    #expect(try parsed(ControlsNotification(priority: .low)).job.priority == 1)
    #expect(try parsed(MDMNotification(pushMagic: "m")).payload == #"{"mdm":"m"}"#)
    #expect(
      try parsed(FileProviderNotification(containerIdentifier: "c", domain: "d")).payload
        == #"{"container-identifier":"c","domain":"d"}"#)
    // Base64 with all its signs: "+", "/" and the padding.
    let answer = try parsed(
      AccessoryNotification(
        encryptedData: [0xFB, 0xEF, 0xFF, 0xFF], sessionIdentifier: "s/\"1\"", keyID: [0xFF],
        messageIndex: .max, priority: .considerate, expiration: .notStored))
    #expect(
      answer.payload == #"""
        {"aps":{"encryptedData":"++///w==","keyID":"/w==","messageIndex":"18446744073709551615",\#
        "sessionIdentifier":"s/\"1\""}}
        """#)
    #expect(answer.job.priority == 5 && answer.job.expiration == 0 && answer.job.collapseID.isEmpty)
    #expect(answer.text(answer.job.topic) == "com.example.app.push-type.accessory")
    let talk = try parsed(PushToTalkNotification(["speaker": "Ada"]))
    #expect(talk.payload == #"{"speaker":"Ada"}"# && talk.job.priority == 10 && talk.job.expiration == 0)
    let ring = try parsed(VoIPNotification(Data(), priority: .immediate))
    #expect(ring.payload == #"{"order":"1/2","score":1.5}"# && ring.job.priority == 10 && ring.job.expiration == 0)
    #expect(ring.text(ring.job.topic) == "com.example.app.voip")
    #expect(try parsed(ComplicationNotification(["a": 1])).payload == #"{"a":1}"#)
    #expect(try parsed(ComplicationNotification(["a": 1])).job.expiration == nil)
  }

  @Test func liveActivities() throws {
    let start = LiveActivityStart(
      Data(), attributesType: "Match", state: ["a": 1],
      alert: ActivityAlert(title: "t", body: .localized(key: "K", arguments: ["x"]), sound: .named("s.caf")),
      updates: .channel(try ChannelID("YQ==")), timestamp: then, staleDate: then.addingTimeInterval(60),
      relevanceScore: 75, priority: .considerate)
    let started = try parsed(start)
    #expect(
      started.payload == """
        {"aps":{"alert":{"body":{"loc-args":["x"],"loc-key":"K"},"sound":"s.caf","title":"t"},\
        "attributes":{"order":"1/2","score":1.5},"attributes-type":"Match","content-state":{"a":1},"event":"start",\
        "input-push-channel":"YQ==","relevance-score":75,"stale-date":1796000060,"timestamp":1796000000}}
        """)
    #expect(started.job.priority == 5)
    #expect(started.text(started.job.topic) == "com.example.app.push-type.liveactivity")
    let update = LiveActivityUpdate(["a": 2], timestamp: then)
    #expect(
      try parsed(update).payload
        == #"{"aps":{"content-state":{"a":2},"event":"update","timestamp":1796000000}}"#)
    #expect(
      try parsed(LiveActivityEnd(["a": 3], dismissal: .at(then), timestamp: then)).payload
        == #"{"aps":{"content-state":{"a":3},"dismissal-date":1796000000,"event":"end","timestamp":1796000000}}"#)
    let ended = try ParsedJob(
      Job(broadcasting: LiveActivityEnd(dismissal: .immediately, timestamp: then), to: ChannelID("YQ/+"), of: "a.b"))
    #expect(ended.payload == #"{"aps":{"dismissal-date":1,"event":"end","timestamp":1796000000}}"#)
    #expect(ended.job.targetKind == .channel && ended.targets == ["YQ/+"])
  }

  @Test func jobsCarryWhatTheyAreGiven() throws {
    let tokens = try ["00FC13AD", "00fc13ad", "11223344"].map(DeviceToken.init)
    let job = try Job(
      WidgetsNotification(), to: .devices(tokens), of: "com.example.app", environment: .sandbox, id: "é",
      topic: "own.push-type.widgets",
      credential: "main", sequence: 7, tokenRegisteredAt: then, class: .bulk, meta: ["campaign": "42"])
    let parsed = try ParsedJob(job)
    #expect(parsed.targets == ["00fc13ad", "11223344"])
    #expect(parsed.job.sequence == 7)
    #expect(parsed.job.environment == .sandbox && parsed.job.tokenRegisteredAt == 1_796_000_000_750)
    #expect(parsed.text(parsed.job.id) == "é" && parsed.text(parsed.job.topic) == "own.push-type.widgets")
    #expect(parsed.text(parsed.job.credential) == "main" && parsed.text(parsed.job.meta) == #"{"campaign":"42"}"#)
    #expect(job.routingKey == "bulk" && job.id == "é")
    #expect(job.line.utf8.elementsEqual(job.body) && !job.line.contains("\n"))
    let bytes: [UInt8] = [0x00, 0xFC, 0x13, 0xAD]
    #expect(try DeviceToken(bytes: bytes) == tokens[0])
    let first = try Job(WidgetsNotification(), to: .device("00fc13ad"), of: "a.b")
    #expect(try Job(WidgetsNotification(), to: .device("00fc13ad"), of: "a.b").id != first.id)
    let uuid = try ParsedJob(first)
    var apnsID: [UInt8] = []
    UUIDValue.apnsID(for: uuid.job, target: 0).write(to: &apnsID)
    #expect(apnsID == Array(first.id.utf8), "the default id is the apns-id")
  }

  /// Refused notifications, by name.
  static let refused: [(NotificationError, @Sendable () throws(NotificationError) -> Void)] = [
    (.deviceToken("xyz"), { () throws(NotificationError) in _ = try DeviceToken("xyz") }),
    (.deviceToken("00fc13adf"), { () throws(NotificationError) in _ = try DeviceToken("00fc13adf") }),
    (.deviceToken("00ff"), { () throws(NotificationError) in _ = try DeviceToken("00ff") }),
    (.deviceToken("٠٠٠٠٠٠٠٠"), { () throws(NotificationError) in _ = try DeviceToken("٠٠٠٠٠٠٠٠") }),
    (.deviceCount(0), { () throws(NotificationError) in _ = try Target.devices([]) }),
    (
      .deviceCount(1001),
      { () throws(NotificationError) in
        _ = try Target.devices(Array(repeating: DeviceToken("00fc13ad"), count: 1001))
      }
    ),
    (.channelID("a b"), { () throws(NotificationError) in _ = try ChannelID("a b") }),
    (.channelID(""), { () throws(NotificationError) in _ = try ChannelID("") }),
    (.collapseID(""), { () throws(NotificationError) in _ = try CollapseID("") }),
    (.collapseID("a\nb"), { () throws(NotificationError) in _ = try CollapseID("a\nb") }),
    (
      .collapseID(String(repeating: "é", count: 33)),
      { () throws(NotificationError) in _ = try CollapseID(String(repeating: "é", count: 33)) }
    ),
    (.volume(1.5), { () throws(NotificationError) in _ = try Sound.critical(volume: 1.5) }),
    (
      .relevanceScore(-1),
      { () throws(NotificationError) in _ = try AlertNotification(Alert(body: "b"), relevanceScore: -1) }
    ),
    (
      .empty("container identifier"),
      { () throws(NotificationError) in _ = try FileProviderNotification(containerIdentifier: "") }
    ),
    (
      .empty("encrypted data"),
      { () throws(NotificationError) in
        _ = try AccessoryNotification(encryptedData: [], sessionIdentifier: "s", keyID: [1], messageIndex: 0)
      }
    ),
    (
      .empty("session identifier"),
      { () throws(NotificationError) in
        _ = try AccessoryNotification(encryptedData: [1], sessionIdentifier: "", keyID: [1], messageIndex: 0)
      }
    ),
    (
      .empty("key id"),
      { () throws(NotificationError) in
        _ = try AccessoryNotification(encryptedData: [1], sessionIdentifier: "s", keyID: [], messageIndex: 0)
      }
    ),
    (.empty("push magic"), { () throws(NotificationError) in _ = try MDMNotification(pushMagic: "") }),
    (
      .dataNotAnObject("[1]"), { () throws(NotificationError) in _ = try VoIPNotification([1]).payload() }
    ),
    (
      .dataNotAnObject("7"), { () throws(NotificationError) in _ = try BackgroundNotification(data: 7).payload() }
    ),
    (
      .dataHasReservedKey("aps"),
      { () throws(NotificationError) in _ = try BackgroundNotification(data: ["aps": 1]).payload() }
    ),
    (
      .payloadTooLarge(bytes: 4106, maximum: 4096),
      { () throws(NotificationError) in
        _ = try ComplicationNotification(["a": String(repeating: "x", count: 4098)]).payload()
      }
    ),
    (
      .id(""),
      { () throws(NotificationError) in
        _ = try Job(WidgetsNotification(), to: .device("00fc13ad"), of: "a.b", id: "")
      }
    ),
    (
      .refused(
        field: "app",
        rule: "must be a bundle id: letters, digits, dots and hyphens, 1 to 200, not \"a b\""),
      { () throws(NotificationError) in _ = try Job(WidgetsNotification(), to: .device("00fc13ad"), of: "a b") }
    ),
    (
      .refused(field: "payload.aps.content-state", rule: "must be an object, not an array"),
      { () throws(NotificationError) in
        _ = try Job(LiveActivityUpdate([1]), to: .device("00fc13ad"), of: "a.b")
      }
    ),
    (
      .refused(field: "meta", rule: "must be an object, not \"text\""),
      { () throws(NotificationError) in
        _ = try Job(WidgetsNotification(), to: .device("00fc13ad"), of: "a.b", meta: "text")
      }
    ),
  ]

  @Test(arguments: refused.indices) func refusesWithAName(_ index: Int) {
    let (expected, body) = Self.refused[index]
    let error = #expect(throws: NotificationError.self) { try body() }
    #expect(error == expected)
    #expect(error?.description.contains(": ") == true)
  }

  @Test func whatCannotBeEncodedIsSaid() throws {
    let error = #expect(throws: NotificationError.self) {
      try BackgroundNotification(data: ["a": Double.nan]).payload()
    }
    guard case .dataNotEncodable(let why)? = error else {
      Issue.record("\(String(describing: error))")
      return
    }
    #expect(!why.isEmpty)
  }

  @Test func longPayloadsOfCallsAndBroadcasts() throws {
    let text = String(repeating: "x", count: 5100)
    #expect(try parsed(VoIPNotification(["a": text])).job.payload.count == 5108)
    let state = ["a": String(repeating: "x", count: 4900)]
    #expect(try Job(broadcasting: LiveActivityUpdate(state), to: ChannelID("YQ=="), of: "a.b").body.count > 4900)
    #expect(throws: NotificationError.self) {
      try Job(LiveActivityUpdate(state), to: .device("00fc13ad"), of: "a.b")
    }
  }
}
