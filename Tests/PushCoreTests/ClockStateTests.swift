import PushCore
import Testing

@Suite struct ClockStateTests {
  private func date(_ text: String) -> Int64? { HTTPDate.unixSeconds(text.utf8.span) }

  @Test func readsTheDatesOfAnswers() {
    #expect(date("Sun, 06 Nov 1994 08:49:37 GMT") == 784_111_777)
    #expect(date("Thu, 01 Jan 1970 00:00:00 GMT") == 0)
    #expect(date("Thu, 29 Feb 2024 23:59:59 GMT") == 1_709_251_199)
    #expect(date("Wed, 01 Mar 2000 00:00:00 GMT") == 951_868_800)
    #expect(date("Sat, 21 Nov 2026 16:00:00 GMT") == 1_795_276_800)
    for wrong in [
      "", "Sun, 06 Nov 1994 08:49:37 UTC", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994",
      "Sun, 06 Nov 1994 25:49:37 GMT", "Sun, 00 Nov 1994 08:49:37 GMT", "Sun, 06 Nop 1994 08:49:37 GMT",
      "Sun, 06 Nov 19x4 08:49:37 GMT", "Sun, 06 Nov 1969 08:49:37 GMT",
    ] { #expect(date(wrong) == nil, "\(wrong)") }
  }

  @Test func writesDatesAsItReadsThem() {
    #expect(
      String(decoding: HTTPDate.bytes(unixSeconds: 784_111_777), as: UTF8.self) == "Sun, 06 Nov 1994 08:49:37 GMT")
    #expect(String(decoding: HTTPDate.bytes(unixSeconds: 0), as: UTF8.self) == "Thu, 01 Jan 1970 00:00:00 GMT")
    #expect(
      String(decoding: HTTPDate.bytes(unixSeconds: 1_709_251_199), as: UTF8.self) == "Thu, 29 Feb 2024 23:59:59 GMT")
    // Eight days and a bit at a time, over leap days, years and centuries.
    for seconds in stride(from: 0, to: 32_000_000_000, by: 700_001) as StrideTo<Int64> {
      guard HTTPDate.unixSeconds(HTTPDate.bytes(unixSeconds: seconds).span) != seconds else { continue }
      Issue.record("\(seconds): \(String(decoding: HTTPDate.bytes(unixSeconds: seconds), as: UTF8.self))")
      return
    }
  }

  @Test func saysOnceThatTheClocksDiffer() {
    var clock = ClockState()
    let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_000_000)
    #expect(clock.skewSeconds == nil)
    #expect(clock.heard(unixSeconds: 1_000, now: now) == .none)
    #expect(clock.heard(unixSeconds: 1_030, now: now) == .none, "within the tolerance")
    #expect(clock.heard(unixSeconds: 1_031, now: now) == .differs(seconds: 31))
    #expect(clock.heard(unixSeconds: 1_500, now: now) == .none, "said once")
    #expect(clock.skewSeconds == 500)
    #expect(clock.heard(unixSeconds: 1_001, now: now) == .agrees)
    #expect(clock.heard(unixSeconds: 900, now: now) == .differs(seconds: -100))
  }
}
