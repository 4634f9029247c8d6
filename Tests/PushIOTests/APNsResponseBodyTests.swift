import PushCore
import PushIO
import Testing

/// Reading the body of an error answer.
@Suite struct APNsResponseBodyTests {
  private func reason(_ body: String) -> APNsReason? { APNsResponseBody(Array(body.utf8).span).reason }

  @Test(arguments: [
    (#"{"reason":"BadDeviceToken"}"#, APNsReason.badDeviceToken),
    (#"{"reason":"\u0042adDeviceToken"}"#, .badDeviceToken),
    (#"{"reason":"\u0042\u0061\u0064\u0044\u0065viceToken"}"#, .badDeviceToken),
    (#"{"re\u0061son":"Unregistered"}"#, .unregistered),
    (#"{"reason":"a \"new\" one"}"#, .other(#"a "new" one"#)),
    (#"{"reason":"back\\slash\/"}"#, .other(#"back\slash/"#)),
    (#"{"reason":"line\nbreak\u0000\u007F"}"#, .other("line?break??")),
    (#"{"reason":"\uD83D\uDE00"}"#, .other("????")),
    (#"{"reason":""}"#, .other("")),
  ]) func aReasonIsDecodedAsJSON(body: String, expected: APNsReason) {
    #expect(reason(body) == expected)
  }

  @Test func whatIsNoStringIsNoReason() {
    for body in [#"{"reason":"\uD83D"}"#, #"{"reason":"\x"}"#, #"{"reason":"cut"#, #"{"reason":7}"#, "[]", ""] {
      #expect(reason(body) == nil, "\(body)")
    }
  }

  @Test func aLongReasonIsCutAfterItWasDecoded() {
    let body = #"{"reason":""# + String(repeating: #"\u0041"#, count: 5_000) + #""}"#
    #expect(reason(body) == .other(String(repeating: "A", count: APNsReason.otherCountMaximum)))
  }

  @Test func theTimeOfA410IsReadBeforeAndBehindTheReason() {
    for body in [
      #"{"reason":"Unregistered","timestamp":1454948015990}"#,
      #"{"timestamp":1454948015990,"re\u0061son":"Unregistered"}"#,
      #"{"time\u0073tamp":1454948015990,"reason":"Unregistered"}"#,
    ] {
      #expect(APNsResponseBody(Array(body.utf8).span).timestamp == 1_454_948_015_990, "\(body)")
    }
  }
}
