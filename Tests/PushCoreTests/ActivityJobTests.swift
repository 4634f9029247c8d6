/// Jobs that start, update and end an activity, and what they become on their way.
import PushCore
import Testing

@Suite struct ActivityJobTests {
  private static let start = #"""
    {"aps":{"event":"start","attributes-type":"Ride","attributes":{},"content-state":{"eta":9},"alert":{"title":"t","body":"b"}}}
    """#
  private static let update = #"{"aps":{"event":"update","content-state":{"eta":5}}}"#
  private static let end = #"{"aps":{"event":"end","timestamp":1}}"#

  private static func start(_ changes: [(String, String?)] = []) -> String {
    job(
      "liveactivity", payload: start, [("to", #"{"users":["u"]}"#), ("activity", #""ride-17""#)] + changes)
  }

  private static func update(_ payload: String = update, _ changes: [(String, String?)] = []) -> String {
    job("liveactivity", payload: payload, [("to", #"{"activity":"ride\/17"}"#)] + changes)
  }

  @Test func theyNameTheirActivity() {
    let start = Parsed(Self.start([("fallback", #"{"title":"A \"t\"","body":"b"}"#)]))
    #expect(start.error == nil && start.text(start.job.activity) == "ride-17")
    #expect(start.job.targetKind == .users && start.job.event == .start)
    #expect(start.text(start.job.fallback.title) == #""A \"t\"""# && start.text(start.job.fallback.body) == "\"b\"")
    for payload in [Self.update, Self.end] {
      let parsed = Parsed(Self.update(payload))
      #expect(parsed.error == nil && parsed.text(parsed.job.activity) == "ride/17")
      #expect(parsed.job.targetKind.isAudience == true && parsed.job.revision == 0)
    }
    #expect(Parsed(Self.update(Self.end, [("to", #"{"devices":["d"]}"#), ("activity", #""a""#)])).error == nil)
  }

  static let wrong: [(String, String, String)] = [
    (start([("activity", nil)]), "to.users", "activity is missing"),
    (start([("activity", #""""#)]), "activity", "1 to 128 bytes, not 0"),
    (start([("activity", #""a\tb""#)]), "activity", "must hold no control characters"),
    (update(update, [("to", #"{"activity":"a\u0000b"}"#)]), "to.activity", "must hold no control characters"),
    (update(start), "to.activity", "takes update and end"),
    (start([("payload", update)]), "to.users", "an update goes to all: to.activity"),
    (start([("payload", end)]), "to.users", "for some (to.devices)"),
    (start([("to", #"{"token":"00fc13ad"}"#)]), "activity", "goes with devices, users or a segment"),
    (job([("activity", #""a""#), ("to", #"{"users":["u"]}"#)]), "activity", "takes the push type liveactivity"),
    (update(update, [("activity", #""other""#)]), "activity", "is another activity than to.activity"),
    (update(update, [("fallback", #"{"title":"t","body":"b"}"#)]), "fallback", "is for the start"),
    (job([("fallback", #"{"title":"t","body":"b"}"#)]), "fallback", "is for the start"),
    (start([("fallback", #"{"title":"t"}"#)]), "fallback", "title and body"),
    (
      start([("fallback", "{\"title\":\"\",\"body\":\"\(String(repeating: "b", count: 4057))\"}")]), "fallback",
      "at most 4096 bytes, not 4097"
    ),
    (start([("fallback", #"{"title":"t","body":"b","x":1}"#)]), "fallback", "title and body"),
    (job([("revision", "1")]), "revision", "must be left out"),
    (update(update, [("revision", "0")]), "revision", "must be left out"),
    (update(update, [("revision", "1"), ("leave", "1")]), "revision", "must be left out"),
  ]

  @Test(arguments: wrong) func whatIsWrongIsSaid(_ text: String, _ field: String, _ rule: String) {
    let error = Parsed(text).error
    #expect(error?.field == field && error?.rule.contains(rule) == true, "\(error?.detail ?? "no error")")
  }

  /// Without an activity's id the timestamp stays the producer's affair.
  @Test func onlyAnActivitysTimestampIsHeralds() {
    let text = job("liveactivity", payload: Self.update)
    #expect(Parsed(text).error?.field == "payload.aps.timestamp")
  }

  // MARK: - As they go out

  private func written(
    _ text: String, messageID: String = "", isLeave: Bool = false, isForNobody: Bool = false
  ) throws -> Parsed {
    let parsed = Parsed(text, messageID: messageID)
    #expect(parsed.error == nil, "\(parsed.error?.detail ?? "")")
    let payload = try ActivityPayload(Array(parsed.text(parsed.job.payload).utf8))
    let revision = ActivityRevision(number: 3, timestamp: 1_796_000_000)
    var output: [UInt8] = []
    ActivityJobWriter.append(
      parsed.job, payload, edited: try payload.edited(ActivityEdits(timestamp: revision.timestamp)), revision,
      isLeave: isLeave, isForNobody: isForNobody, now: 1_796_000_100, to: &output)
    return Parsed(bytes: output)
  }

  @Test func aStartGetsWhatWasLeftToHerald() throws {
    let parsed = try written(Self.start())
    #expect(parsed.error == nil && parsed.job.revision == 3 && !parsed.job.isLeave)
    #expect(parsed.job.priority == 10 && parsed.job.expiration == 1_796_000_700)
    #expect(parsed.text(parsed.job.collapseID) == "ride-17")
    #expect(parsed.text(parsed.job.payload).hasPrefix(#"{"aps":{"timestamp":1796000000,"event":"start","#))
    let own = try written(Self.start([("priority", "5"), ("expiration", "0"), ("collapse_id", #""c""#)]))
    #expect(own.job.priority == 5 && own.job.expiration == 0 && own.text(own.job.collapseID) == "c")
    let long = try written(Self.start([("activity", "\"\(String(repeating: "é", count: 50))\"")]))
    #expect(long.error == nil && long.job.collapseID.count == 32)
  }

  @Test func anUpdateGetsItsPriorityAndNothingMore() throws {
    let parsed = try written(Self.update())
    #expect(parsed.error == nil && parsed.job.targetKind == .activity)
    #expect(parsed.text(parsed.job.activity) == "ride/17" && parsed.job.priority == 5)
    #expect(parsed.job.expiration == nil && parsed.job.collapseID.isEmpty)
    let unnamed = try written(Self.update(Self.update, [("id", nil)]), messageID: "m\"1")
    #expect(unnamed.error == nil && unnamed.text(unnamed.job.id) == "m\"1")
    let leave = try written(
      Self.update(Self.end, [("to", #"{"devices":["d"]}"#), ("activity", #""a""#)]), isLeave: true)
    #expect(leave.error == nil && leave.job.isLeave && leave.job.revision == 3 && leave.job.priority == 10)
  }

  /// What is kept of an end for some devices names none of them: they may be forgotten before it is.
  @Test func anEndThatIsKeptNamesNobody() throws {
    let devices = #"{"devices":["hw-1","hw-2"]}"#
    for text in [
      Self.update(Self.end, [("to", devices), ("activity", #""a""#)]),
      #"{"payload":\#(Self.end),"activity":"a","to":\#(devices),"app":"com.example.app","push_type":"liveactivity","id":"x"}"#,
    ] {
      let sent = try written(text, isLeave: true)
      #expect(sent.error == nil && sent.job.targets.count == 2)
      let kept = try written(text, isLeave: true, isForNobody: true)
      #expect(kept.error == nil && kept.job.isLeave && kept.job.revision == 3)
      #expect(!String(decoding: kept.job.bytes, as: UTF8.self).contains("hw-"))
      #expect(kept.text(kept.job.payload) == sent.text(sent.job.payload))
      var output: [UInt8] = []
      PageWriter.append(kept.job, late: "hw-1", ordinal: 7, fingerprint: 5, to: &output)
      let late = Parsed(bytes: output)
      #expect(late.error == nil && late.job.isLeave && late.text(late.job.parentID) == kept.text(kept.job.id))
    }
  }

  @Test func pagesKnowTheirActivity() throws {
    let update = try written(Self.update())
    var output: [UInt8] = []
    PageWriter.append(update.job, number: 4, ordinals: Array("3,9".utf8), epoch: 0, to: &output)
    let page = Parsed(bytes: output)
    #expect(page.error == nil && page.job.page.count == 2 && page.job.revision == 3)
    #expect(page.text(page.job.activity) == "ride/17" && page.job.page.late.isEmpty)
    output = []
    PageWriter.append(update.job, late: "hw\"1", ordinal: 77, fingerprint: 9, to: &output)
    let late = Parsed(bytes: output)
    #expect(late.error == nil && late.text(late.job.id) == "\(someID)/late/hw\"1")
    #expect(late.text(late.job.parentID) == someID && late.text(late.job.page.late) == #"hw\"1"#)
    let lateBytes = late.job.bytes
    #expect(late.job.page.fingerprint(0, in: lateBytes.span) == 9)
    // A copy of it for its one target is the same job.
    output = []
    JobRewriter.append(late.job, onlyTarget: 0, to: &output)
    let again = Parsed(bytes: output)
    #expect(again.error == nil && again.text(again.job.id) == late.text(late.job.id))
    #expect(again.job.page.late.count == late.job.page.late.count)
  }

  /// Those who cannot show the activity: an alert that knows its activity, and nothing of the start's payload.
  @Test func aFallbackBecomesAlerts() throws {
    let fallback = #"{"body":"b\u0021","title":"A \"t\""}"#
    let parsed = try written(
      Self.start([
        ("id", #""a\"b\/c""#), ("activity", #""ride \"1\"""#), ("fallback", fallback), ("credential", #""k\\1""#),
        ("environment", #""sandbox""#), ("topic", #""com.example.other.push-type.liveactivity""#),
        ("meta", #"{"campaign":"42"}"#),
      ]))
    var output: [UInt8] = []
    FallbackWriter.append(parsed.job, number: 7, ordinals: Array("3,9".utf8), epoch: 0, to: &output)
    let page = Parsed(bytes: output)
    try #require(page.error == nil, "\(page.error?.detail ?? "")")
    #expect(page.text(page.job.id) == "a\"b/c/7" && page.text(page.job.parentID) == "a\"b/c")
    #expect(page.job.pushType == .alert && page.job.event == nil && page.text(page.job.topic) == "com.example.app")
    #expect(page.text(page.job.activity) == "ride \"1\"" && page.job.revision == 3)
    #expect(page.job.page.number == 7 && page.job.page.count == 2)
    #expect(page.job.page.ordinal(1, in: page.job.bytes.span) == 9)
    #expect(page.job.environment == .sandbox && page.text(page.job.credential) == "k\\1")
    #expect(page.job.priority == 10 && page.job.expiration == 1_796_000_700)
    #expect(page.text(page.job.collapseID) == "ride \"1\"" && page.text(page.job.meta) == #"{"campaign":"42"}"#)
    #expect(
      page.text(page.job.payload) == #"{"aps":{"alert":{"title":"A \"t\"","body":"b\u0021"}}}"#)
    // A copy of it for one device is the same page.
    var resolution = PageResolution()
    resolution.skip()
    let (token, device): ([UInt8], [UInt8]) = ([0xAB, 0xCD], Array("d".utf8))
    resolution.send(to: token.span, device: device.span, registeredAt: 5)
    var job = PushJob()
    job.bytes = output
    job.bodyCount = output.count
    var parser = JobParser()
    let none: [UInt8] = []
    try parser.parse(into: &job, fallbackID: none.span)
    #expect(job.resolve(resolution, isRepeated: false).map(\.index) == [0])
    output = []
    JobRewriter.append(job, onlyTarget: 0, to: &output)
    let again = Parsed(bytes: output)
    #expect(again.error == nil && again.text(again.job.id) == "a\"b/c/7")
    #expect(again.job.page.position == 1 && again.job.page.count == 1)
  }

  @Test(arguments: [("", ""), ("t", ""), (#"\n"#, #"\uD83D\uDE00"#)])
  func everyFallbackMakesAnAlert(_ title: String, _ body: String) throws {
    let start = try written(Self.start([("fallback", "{\"title\":\"\(title)\",\"body\":\"\(body)\"}")]))
    var output: [UInt8] = []
    FallbackWriter.append(start.job, number: 0, ordinals: Array("1".utf8), epoch: 0, to: &output)
    let page = Parsed(bytes: output)
    #expect(page.error == nil, "\(page.error?.detail ?? "")")
    #expect(Int(page.job.payload.count) == FallbackWriter.payloadCount(start.job))
  }

  @Test(arguments: [
    #""to":{"page":4294967295,"ordinals":[7],"late":"e"}"#, #""to":{"page":4294967295,"ordinals":[7,8],"late":"d"}"#,
    #""to":{"page":1,"ordinals":[7],"late":"d"}"#, #""to":{"page":4294967295,"ordinals":[7]}"#,
  ]) func aLatePageNamesItself(_ to: String) {
    let text = #"""
      {"revision":3,"activity":"a","parent_id":"p","id":"p/late/d","app":"com.example.app","push_type":"liveactivity",\#(to),
      "payload":\#(Self.end)}
      """#
    #expect(Parsed(text).error?.field == "to.page")
    #expect(Parsed(text.replacing(to, with: #""to":{"page":4294967295,"ordinals":[7],"late":"d"}"#)).error == nil)
  }

  /// Its token is not known any more, and an earlier delivery of the page may have been sent.
  @Test func whatMayHaveBeenSentHasItsOutcome() throws {
    let update = try written(Self.update())
    var output: [UInt8] = []
    PageWriter.append(update.job, number: 0, ordinals: Array("3".utf8), epoch: 0, to: &output)
    for isRepeated in [false, true] {
      let page = Parsed(bytes: output)
      let device = Array("d".utf8)
      var resolution = PageResolution()
      resolution.skip(device: device.span)
      #expect(page.job.resolve(resolution, isRepeated: isRepeated).map(\.index) == (isRepeated ? [] : [0]))
      #expect(page.job.page.superseded == (isRepeated ? [0] : []) && page.job.targets.count == (isRepeated ? 1 : 0))
    }
  }

  @Test func anOvertakenDeviceHasItsOutcome() throws {
    let update = try written(Self.update())
    var output: [UInt8] = []
    PageWriter.append(update.job, number: 0, ordinals: Array("3,9,12".utf8), epoch: 0, to: &output)
    let page = Parsed(bytes: output)
    var resolution = PageResolution()
    let (token, first, second): ([UInt8], [UInt8], [UInt8]) = ([0xAB, 0xCD], Array("d1".utf8), Array("d2".utf8))
    resolution.send(to: token.span, device: first.span, registeredAt: 5)
    resolution.skip()
    let unknown: [UInt8] = []
    resolution.supersede(unknown.span, device: second.span, registeredAt: 0)
    let skipped = page.job.resolve(resolution, isRepeated: false)
    #expect(page.job.targets.count == 2 && page.job.page.superseded == [1] && skipped.map(\.index) == [1])
    var state = DeliveryState()
    let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 7)
    let times = JobTimes(enqueuedAt: 0, expiration: nil)
    let action = state.admitted(
      .proceed, times, policy: RetryPolicy(), dropsOverLimit: false, isOvertaken: true, now: now)
    #expect(action == .report)
    guard case .outcome(let outcome, true, nil) = state.ending else {
      Issue.record("\(state.ending as Any)")
      return
    }
    var record = OutcomeRecord(
      outcome: outcome.outcome, attempts: 0, receivedAt: 1, sentAt: nil, completedAt: outcome.completedAt)
    record.isSuppressed = true
    output = []
    OutcomeWriter(worker: "w").append(
      record, of: page.job, target: 1, apnsID: UUIDValue.apnsID(for: page.job, target: 1), to: &output)
    let text = String(decoding: output, as: UTF8.self)
    #expect(text.contains(#""to":{"device":"d2"}"#) && text.contains(#""cause":"superseded""#), "\(text)")
    #expect(text.contains(#""activity":"ride/17","revision":3"#) && text.contains(#""outcome":"throttled""#), "\(text)")
  }
}
