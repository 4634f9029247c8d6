/// Jobs for devices, users and segments, and the pages that are made of them.
import PushCore
import Testing

@Suite struct AudienceJobTests {
  @Test(arguments: [
    ("devices", #"["hwid-1","00fc13ad","hwid-1"]"#, ["hwid-1", "00fc13ad"]), ("users", #"["u\/1","ü"]"#, ["u/1", "ü"]),
    ("segment", #""GOLD""#, ["GOLD"]),
  ]) func namesAreRead(_ kind: String, _ value: String, _ names: [String]) {
    let parsed = Parsed(job([("to", #"{"\#(kind)":\#(value)}"#), ("dry_run", "true")]))
    #expect(parsed.error == nil)
    #expect(parsed.targets == names)
    #expect("\(parsed.job.targetKind)" == kind)
    #expect(parsed.job.targetKind.isAudience == true)
    #expect(parsed.job.isDryRun == true)
    #expect(Parsed(job([("to", #"{"\#(kind)":\#(value)}"#)])).job.isDryRun == false)
  }

  private static let upperCase = String(repeating: "AB", count: 32)

  static let wrong: [(String, String, String)] = [
    (job([("to", #"{"users":[]}"#)]), "to.users", "1 to 1000 users, not 0"),
    (job([("to", #"{"users":"u"}"#)]), "to.users", "an array of strings"),
    (job([("to", #"{"users":["u",7]}"#)]), "to.users[1]", "a string, not 7"),
    (job([("to", #"{"users":[""]}"#)]), "to.users[0]", "1 to 128 bytes, not 0"),
    (job([("to", #"{"devices":["\#(String(repeating: "x", count: 129))"]}"#)]), "to.devices[0]", "not 129"),
    (job([("to", #"{"devices":["a","\#(upperCase)"]}"#)]), "to.devices[1]", "lower case"),
    (job([("to", #"{"segment":""}"#)]), "to.segment", "must be 1 to 64 letters"),
    (job([("to", #"{"segment":"a b"}"#)]), "to.segment", "must be 1 to 64 letters"),
    (job([("to", #"{"users":["a\tb"]}"#)]), "to.users[0]", "must hold no control characters"),
    (job([("to", #"{"devices":["a","b\u007f"]}"#)]), "to.devices[1]", "must hold no control characters"),
    (job([("to", #"{"segment":["x"]}"#)]), "to.segment", "must be a string"),
    (job([("to", #"{"users":["u"],"segment":"x"}"#)]), "to", "exactly one kind of target, not 2"),
    (
      job(
        "liveactivity", payload: #"{"aps":{"timestamp":1,"event":"update","content-state":{}}}"#,
        [
          ("to", #"{"users":["u"]}"#)
        ]), "to.users", "liveactivity"
    ),
    (job([("dry_run", "true")]), "dry_run", "counts an audience"),
    (job([("dry_run", "1"), ("to", #"{"users":["u"]}"#)]), "dry_run", "true or false, not 1"),
    (job([("parent_id", "\"x\"")]), "parent_id", "Herald makes itself"),
  ]

  @Test(arguments: wrong) func whatIsWrongIsSaid(_ text: String, _ field: String, _ rule: String) {
    let error = Parsed(text).error
    #expect(error?.field == field)
    #expect(error?.rule.contains(rule) == true, "\(error?.detail ?? "no error")")
  }

  /// Upper-case hex that is shorter than a token is a hardware id.
  @Test func aHardwareIDMayBeHex() {
    #expect(Parsed(job([("to", #"{"devices":["AB12CD34"]}"#)])).error == nil)
  }

  // MARK: pages

  private func page(
    _ text: String, messageID: String = "", number: UInt32, _ ordinals: String, epoch: UInt64 = 0
  ) -> String {
    let parsed = Parsed(text, messageID: messageID)
    #expect(parsed.error == nil)
    var output: [UInt8] = []
    PageWriter.append(parsed.job, number: number, ordinals: Array(ordinals.utf8), epoch: epoch, to: &output)
    return String(decoding: output, as: UTF8.self)
  }

  private func ordinals(_ parsed: Parsed) -> [UInt32] {
    let bytes = parsed.job.bytes
    return (0..<parsed.job.page.count).map { parsed.job.page.ordinal($0, in: bytes.span) }
  }

  private static let payload = #"{"aps":{"alert":"hello"},  "x":[1, 2.50]}"#

  @Test func aPageIsItsParentButForItsName() {
    let parent = #"""
       {"to" : {"users": ["a", "b"]},"app":"com.example.app","push_type":"alert", "id":"a\"\u00e9/1" ,
      "payload":\#(Self.payload),"meta":{"k":  1}}
      """#
    #expect(
      page(parent, number: 7, "3,900,4294967295") == #"""
         {"parent_id":"a\"\u00e9/1","to" : {"page":7,"ordinals":[3,900,4294967295]},"app":"com.example.app","push_type":"alert", "id":"a\"\u00e9/1/7" ,
        "payload":\#(Self.payload),"meta":{"k":  1}}
        """#)
    let parsed = Parsed(page(parent, number: 7, "3,900,4294967295"))
    #expect(parsed.error == nil)
    #expect(parsed.job.targetKind == .page)
    #expect(parsed.text(parsed.job.id) == "a\"é/1/7")
    #expect(parsed.text(parsed.job.parentID) == "a\"é/1")
    #expect(parsed.text(parsed.job.payload) == Self.payload)
    #expect(parsed.job.page.number == 7 && parsed.job.page.count == 3)
    #expect(ordinals(parsed) == [3, 900, .max])
  }

  @Test func aPageCarriesTheEpochOfItsOrdinals() {
    let parsed = Parsed(page(job([("to", #"{"users":["u"]}"#)]), number: 0, "5", epoch: 1_796_000_000_123_456))
    #expect(parsed.error == nil && parsed.job.page.epoch == 1_796_000_000_123_456)
    #expect(Parsed(page(job([("to", #"{"users":["u"]}"#)]), number: 0, "5")).job.page.epoch == 0)
  }

  @Test func aMessageIDBecomesTheIDOfThePages() {
    let parent = #"{"app":"com.example.app","push_type":"alert","to":{"segment":"S"},"payload":{"aps":{"alert":"x"}}}"#
    let text = page(parent, messageID: "m\"1", number: 0, "5")
    #expect(
      text
        == #"{"parent_id":"m\"1","id":"m\"1/0","app":"com.example.app","push_type":"alert","to":{"page":0,"ordinals":[5]},"payload":{"aps":{"alert":"x"}}}"#
    )
    let parsed = Parsed(text)
    #expect(parsed.error == nil)
    #expect(parsed.text(parsed.job.id) == "m\"1/0")
  }

  @Test func theLongestIDHasPages() {
    let id = String(repeating: "x", count: 128)
    let text = page(job([("id", "\"\(id)\""), ("to", #"{"users":["u"]}"#)]), number: .max, "1")
    let parsed = Parsed(text)
    #expect(parsed.error == nil)
    #expect(parsed.job.id.count == 139)
    #expect(Parsed(job([("id", "\"\(id)y\"")])).error?.field == "id")
  }

  /// What a producer writes by accident is no page.
  @Test(arguments: [
    [("to", #"{"page":1,"ordinals":[1]}"#)], [("to", #"{"page":1,"ordinals":[1]}"#), ("parent_id", "\"\(someID)\"")],
    [("to", #"{"page":1,"ordinals":[1]}"#), ("parent_id", "\"a\""), ("id", "\"a/2\"")],
    [("to", #"{"page":1,"ordinals":[1]}"#), ("parent_id", "\"a\""), ("id", "\"b/1\"")],
    [("to", #"{"page":1,"ordinals":[1]}"#), ("parent_id", "\"a\""), ("id", "\"a/01\"")],
    [("to", #"{"page":1,"ordinals":[]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[2,1]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[1,1]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[-1]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[4294967296]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":["x"]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":"1","ordinals":[1]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[1],"position":500}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[1],"epoch":-1}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[1],"users":["u"]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
    [("to", #"{"page":1,"ordinals":[1],"ordinals":[2]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")],
  ]) func nothingElseIsAPage(_ changes: [(String, String)]) {
    let error = Parsed(job(changes.map { ($0, Optional($1)) })).error
    #expect(error?.field == "to.page", "\(error?.detail ?? "no error")")
  }

  @Test func aPageHasAtMost500Devices() {
    func parsed(_ count: Int) -> Parsed {
      let ordinals = (0..<count).map(String.init).joined(separator: ",")
      return Parsed(
        job([("to", #"{"page":1,"ordinals":[\#(ordinals)]}"#), ("parent_id", "\"a\""), ("id", "\"a/1\"")]))
    }
    #expect(parsed(500).error == nil)
    #expect(parsed(501).error?.field == "to.page")
  }

  // MARK: devices of a page

  private func somePage() -> Parsed {
    Parsed(
      job([
        ("to", #"{"page":3,"ordinals":[10,11,12],"position":40,"epoch":1796000000123456}"#), ("parent_id", "\"a\""),
        ("id", "\"a/3\""),
        ("token_registered_at", "5"),
      ]))
  }

  private func resolved() -> (Parsed, ends: String) {
    let parsed = somePage()
    #expect(parsed.error == nil)
    var resolution = PageResolution()
    resolution.skip()
    resolution.send(to: ([0x00, 0xFC, 0x13, 0xAD] as [UInt8]).span, device: Array("d\"1".utf8).span, registeredAt: 9)
    resolution.send(to: ([0xAA, 0xBB, 0xCC, 0xDD] as [UInt8]).span, device: Array("d2".utf8).span, registeredAt: 8)
    var ends = Array("---".utf8)
    for (index, end) in parsed.job.resolve(resolution, isRepeated: false) { ends[index] = PageEnd(end).letter }
    return (parsed, String(decoding: ends, as: UTF8.self))
  }

  @Test func tokensTakeTheOrdinalsPlace() {
    let (parsed, ends) = resolved()
    #expect(ends == "s--")
    #expect(parsed.targets == ["00fc13ad", "aabbccdd"])
    #expect(parsed.job.page.positions == [41, 42])
    #expect(parsed.job.page.registeredAt == [9, 8])
  }

  /// Whatever token a device has when it is sent, a page that comes twice has one name for it.
  @Test func theNameOfARequestIsItsOrdinals() {
    let (parsed, _) = resolved()
    let before = UUIDValue.apnsID(for: somePage().job, target: 1)
    #expect(UUIDValue.apnsID(for: parsed.job, target: 0) == before)
    #expect(UUIDValue.apnsID(for: parsed.job, target: 1) != before)
  }

  @Test func aCopyForOneDeviceCarriesItsOrdinal() {
    let (parsed, _) = resolved()
    var output: [UInt8] = []
    JobRewriter.append(parsed.job, onlyTarget: 1, to: &output)
    let copy = Parsed(bytes: output)
    #expect(copy.error == nil)
    #expect(copy.text(copy.job.to) == #"{"page":3,"ordinals":[12],"position":42,"epoch":1796000000123456}"#)
    #expect(copy.job.page.positions == [42] && copy.job.page.epoch == 1_796_000_000_123_456)
    #expect(UUIDValue.apnsID(for: copy.job, target: 0) == UUIDValue.apnsID(for: parsed.job, target: 1))
  }

  @Test func anOutcomeNamesTheDevice() {
    let (parsed, _) = resolved()
    let record = OutcomeRecord(outcome: .accepted, status: 200, attempts: 1, receivedAt: 1, sentAt: 2, completedAt: 3)
    let text = outcomeText(record, parsed.job, target: 0)
    #expect(scanError(text) == nil)
    #expect(text.contains(#""job_id":"a/3""#) && text.contains(#""to":{"device":"d\"1"}"#), "\(text)")
    #expect(text.contains(#","parent_id":"a","#), "\(text)")
  }

  // MARK: fingerprints

  private let fingerprints: [UInt32] = [0, 0x1234_5678, .max]

  private func pageWithFingerprints() -> Parsed {
    let text = String(decoding: DeviceFingerprints.text(of: fingerprints), as: UTF8.self)
    #expect(text == "AAAAAAASNFZ4D_____")
    return Parsed(
      job([
        ("to", #"{"page":3,"ordinals":[10,11,12],"epoch":9,"fingerprints":"\#(text)"}"#), ("parent_id", "\"a\""),
        ("id", "\"a/3\""),
      ]))
  }

  @Test func fingerprint_isReadAsItWasWritten() {
    let parsed = pageWithFingerprints()
    #expect(parsed.error == nil)
    let bytes = parsed.job.bytes
    #expect((0..<3).map { parsed.job.page.fingerprint($0, in: bytes.span) } == fingerprints)
    let older = somePage()
    let others = older.job.bytes
    #expect(older.job.page.fingerprint(0, in: others.span) == nil)
  }

  /// A copy of a part of a page carries its part, and so does what the page tells.
  @Test func fingerprint_goesWithItsDevice() {
    let parsed = pageWithFingerprints()
    var resolution = PageResolution()
    resolution.forget()
    resolution.send(to: ([1, 2, 3, 4] as [UInt8]).span, device: Array("d1".utf8).span, registeredAt: 1)
    resolution.send(to: ([1, 2, 3, 5] as [UInt8]).span, device: Array("d2".utf8).span, registeredAt: 1)
    let unsent = parsed.job.resolve(resolution, isRepeated: true)
    #expect(unsent.map(\.index) == [0] && unsent.map(\.end) == [.forgotten])
    for target in 0..<2 {
      var output: [UInt8] = []
      JobRewriter.append(parsed.job, onlyTarget: target, to: &output)
      let copy = Parsed(bytes: output)
      #expect(copy.error == nil)
      let bytes = copy.job.bytes
      #expect(copy.job.page.fingerprint(0, in: bytes.span) == fingerprints[1 + target])
    }
    var settlement: [UInt8] = []
    PageSettlement.append(parsed.job, ends: Array("ga-".utf8), to: &settlement)
    let read = PageSettlement(settlement.span)
    #expect(read?.fingerprints == DeviceFingerprints.text(of: fingerprints) && read?.ends == Array("ga-".utf8))
  }

  @Test(arguments: ["AAAAAA", "AAAAAAAAAAAAAAAAAA=", "E_____AAAAAAAAAAAA", "AAAAA!AAAAAAAAAAAA"])
  func nothingElseIsAFingerprint(_ text: String) {
    let error = Parsed(
      job([
        ("to", #"{"page":3,"ordinals":[10,11,12],"fingerprints":"\#(text)"}"#), ("parent_id", "\"a\""),
        ("id", "\"a/3\""),
      ])
    ).error
    #expect(error?.field == "to.page")
  }

  // MARK: settlements

  @Test func aSettlementIsReadAsItWasWritten() throws {
    let (parsed, ends) = resolved()
    var output: [UInt8] = []
    PageSettlement.append(parsed.job, ends: Array(ends.utf8), to: &output)
    #expect(
      String(decoding: output, as: UTF8.self)
        == #"{"settles":"a","app":"com.example.app","environment":"production","page":3,"position":40,"#
        + #""ends":"s--","ordinals":"1796000000123456:10,11,12"}"#)
    let isSettlement = PageSettlement.isSettlement(output.span)
    #expect(isSettlement)
    let read = PageSettlement(output.span)
    let written = PageSettlement(
      parentID: Array("a".utf8), scope: AppScope(app: "com.example.app", environment: .production), page: 3,
      position: 40, ends: Array("s--".utf8),
      ordinals: Array("1796000000123456:10,11,12".utf8))
    #expect(read == written)
    output.removeLast()
    output += Array(#","newer":[{"a":1}],"other":"x","third":1}"#.utf8)
    let ofNewerVersion = PageSettlement(output.span)
    #expect(ofNewerVersion == written)
    let bytes = Array(#"{"settles":"a","page":3,"position":40,"ends":"s--"}"#.utf8)
    let ofTheBuildBefore = PageSettlement(bytes.span)
    #expect(ofTheBuildBefore?.scope == nil && ofTheBuildBefore?.page == 3)
  }

  /// The settlement of a start's page; those of others have no such letters.
  @Test func aStartsSettlementSaysWhatReachedAPNs() throws {
    let page = #"""
      {"parent_id":"s\"1","id":"s\"1/2","app":"a.b","environment":"sandbox","push_type":"liveactivity",
      "activity":"ride\u00e9","to":{"page":2,"ordinals":[7,9,70000],"epoch":5},"revision":1,"payload":{"aps":{
      "event":"start","attributes-type":"R","attributes":{},"content-state":{},"alert":{"title":"t","body":"b"},
      "timestamp":1}}}
      """#
    let started = Parsed(bytes: Array(page.utf8))
    var isStart = started.job.isStartPage
    #expect(started.error == nil && isStart)
    var output: [UInt8] = []
    PageSettlement.append(started.job, ends: Array("ae-".utf8), starts: Array("yn-".utf8), to: &output)
    let settlement = PageSettlement(output.span)
    let read = try #require(settlement)
    let starts = try #require(read.starts)
    #expect(read.scope == AppScope(app: "a.b", environment: .sandbox))
    #expect(starts.activity == Array("ride\u{e9}".utf8) && !starts.areAlerts && starts.letters == Array("yn-".utf8))
    #expect(read.devices == [7, 9, 70_000] && read.parentID == Array("s\"1".utf8))
    let short = Array(#"{"settles":"a","page":1,"position":0,"ends":"aa","starts":"y"}"#.utf8)
    let unsound = PageSettlement(short.span)
    #expect(unsound == nil)
    let (usual, _) = resolved()
    isStart = usual.job.isStartPage
    #expect(!isStart)
  }

  @Test(arguments: [
    "", "{}", "[]", #"{"settles":"a"}"#, #"{"settles":"a","page":1,"position":0,"ends":"x"}"#,
    #"{"settles":"a","page":1,"position":499,"ends":"aa"}"#, #"{"settles":"","page":1,"position":0,"ends":"a"}"#,
    #"{"settles":"a","page":-1,"position":0,"ends":"a"}"#, #"{"settles":"a","page":1,"position":0,"ends":"a"}x"#,
    #"{"settles":"a","page":"1","position":0,"ends":"a"}"#, #"{"settles":"a","page":1,"position":0,"ends":1}"#,
    exampleJob,
  ]) func whatIsNoSettlementIsNotTaken(_ text: String) {
    let bytes = Array(text.utf8)
    let read = PageSettlement(bytes.span)
    #expect(read == nil)
  }

  @Test func everyEndHasALetterOfItsOwn() {
    #expect(Set(PageEnd.all.map(\.letter)).count == PageEnd.all.count)
    for end in PageEnd.all { #expect(PageEnd(letter: end.letter) == end) }
    #expect(PageEnd(letter: PageEnd.open) == nil)
    #expect(PageEnd.all.count == Outcome.allCases.count + 2, "each but completed; skipped, forgotten and cancelled")
  }

  // MARK: the parent's end

  @Test func aParentEndsInASummary() {
    let parsed = Parsed(job([("to", #"{"users":["u"]}"#), ("id", "\"p\"")]))
    var record = OutcomeRecord(outcome: .completed, attempts: 0, receivedAt: 1, sentAt: nil, completedAt: 3)
    var summary = AudienceSummary()
    summary.devices = 4
    summary[.outcome(.accepted)] = 2
    summary[.outcome(.unregistered)] = 1
    summary[.skipped] = 1
    record.summary = summary
    let text = outcomeText(record, parsed.job, target: nil)
    #expect(scanError(text) == nil)
    #expect(text.contains(#""outcome":"completed""#) && text.contains(#""to":{"users":["u"]}"#), "\(text)")
    #expect(
      text.contains(#","summary":{"devices":4,"accepted":2,"unregistered":1,"skipped":1},"meta""#), "\(text)")
    #expect(!text.contains("cancelled"))
    record.isCancelled = true
    #expect(outcomeText(record, parsed.job, target: nil).contains(#"1},"cancelled":true,"meta""#))
  }

  /// Nobody remembers the end of an audience.
  @Test func aCompletedOutcomeHasNoEncoding() {
    func decoded(_ bytes: [UInt8]) -> RememberedOutcome? { RememberedOutcome(decoding: bytes.span) }
    #expect(decoded([7, 2, 0]) == nil)
    #expect(decoded([6, 2, 0])?.outcome == .failed)
  }
}
