import PushCore
import TestSupport
import Testing

/// Texts of others are bytes: two that are equal canonically alone are two.
@Suite struct ByteTextTests {
  private static let composed = "\u{E9}-dev"
  private static let decomposed = "e\u{301}-dev"

  private func device(_ json: String) throws -> DeviceRegistration {
    let text = #"{"kind":"device","at":1796000000000,"app":"com.example.app","device":"d",\#(json)}"#
    let parsed = try RegistrationParser.parse(Array(text.utf8), now: 1_796_000_000_000)
    guard case .device(let device) = parsed.subject else { throw TestFailure("no device") }
    return device
  }

  @Test func byteText_isComparedByItsBytes() {
    let (composed, decomposed) = (ByteText(ByteTextTests.composed), ByteText(ByteTextTests.decomposed))
    #expect(ByteTextTests.composed == ByteTextTests.decomposed, "Swift compares canonically")
    #expect(composed != decomposed && Set([composed, decomposed, composed]).count == 2)
    #expect(decomposed < composed && !(composed < composed) && ByteText("") < decomposed)
  }

  @Test func tagsAndTypesOfARegistration_areTwo() throws {
    let (composed, decomposed) = (ByteTextTests.composed, ByteTextTests.decomposed)
    let device = try device(
      #"""
      "tags":{"\#(composed)":1,"\#(decomposed)":2,"l":["\#(composed)","\#(decomposed)","\#(composed)"]},
      "push_to_start":{"\#(composed)":"00fc13ad","\#(decomposed)":"00fc13ae"}
      """#)
    #expect(device.tags.count == 3 && device.startTokens.count == 2)
    guard case .changed(let record, _) = DeviceChange.registering(device, at: 1, now: .max, onto: nil, fingerprint: 1)
    else { throw TestFailure("refused") }
    #expect(record.tags.count == 3 && record.startTokens.count == 2)
    #expect(
      record.startToken(for: composed)?.bytes.last == 0xAD && record.startToken(for: decomposed)?.bytes.last == 0xAE)
    guard let list = record.tags.first(where: { $0.name == "l" }), case .list(let members) = list.value else {
      throw TestFailure("no list")
    }
    #expect(members.map(ByteText.init) == [ByteText(composed), ByteText(decomposed)])
  }

  @Test func aChangedForm_isAChange() throws {
    let composed = TagValue.text(ByteTextTests.composed)
    let decomposed = TagValue.text(ByteTextTests.decomposed)
    #expect(composed != decomposed && TagValue.list([ByteTextTests.composed]) != .list([ByteTextTests.decomposed]))
    #expect(Set([composed, decomposed]).count == 2)
  }

  @Test func devicesOfAnAudience_areTwo() {
    let (composed, decomposed) = (ByteTextTests.composed, ByteTextTests.decomposed)
    #expect(FilterPlan(anyOf: [.id(composed), .id(decomposed), .id(composed)]).sets.count == 2)
    #expect(Set<ForgottenSubject>([.user(composed), .user(decomposed), .device(composed)]).count == 3)
    #expect(ActivityID(composed) != ActivityID(decomposed) && ChannelName(composed) != ChannelName(decomposed))
  }

  @Test func valuesOfASegment_areTwo() throws {
    let (composed, decomposed) = (ByteTextTests.composed, ByteTextTests.decomposed)
    let json = #"{"tag":"t","in":["\#(composed)","\#(decomposed)","\#(composed)"]}"#
    let filter = try SegmentFilterParser.parse(Array(json.utf8))
    guard case .leaf(.tagIn(_, let values)) = filter else { throw TestFailure("no list") }
    #expect(values.count == 2)
    let plan = try FilterPlan(filter, unixMilliseconds: 0, osVersions: [])
    #expect(plan.sets.count == 2)
  }

  /// The accent joins the colon to one character.
  @Test func attributesTypeThatBeginsWithAnAccent_isOne() throws {
    let filter = try SegmentFilterParser.parse(Array("{\"has\":\"push_to_start:\u{301}x\"}".utf8))
    guard case .leaf(.hasPushToStart(let type)) = filter else { throw TestFailure("no type") }
    #expect(Array(type.utf8) == [0xCC, 0x81, 0x78])
  }
}
