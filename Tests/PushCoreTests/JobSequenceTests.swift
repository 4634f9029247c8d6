import PushCore
import Testing

/// Numbers for jobs whose producer set none.
@Suite struct JobSequenceTests {
  @Test func clock_neverGivesANumberTwice() {
    var clock = SequenceClock()
    #expect(clock.take(now: 100) == 100)
    #expect(clock.take(now: 100) == 101, "within a microsecond")
    #expect(clock.take(3, now: 200) == 200)
    #expect(clock.take(now: 150) == 203, "the clock was set back")
    clock.follow(1_000)
    clock.follow(500)
    #expect(clock.take(now: 300) == 1_001)
    clock.follow(.max)
    #expect(clock.take(5, now: .max - 10) == 1 << 53, "no number is beyond what a job may have")
    #expect(clock.take(now: 0) == 1 << 53)
  }

  private func isMissing(_ text: String) -> Bool { JobSequence.isMissing(in: Array(text.utf8)) }

  @Test func onlyJobsInOrder_miss() {
    #expect(isMissing(#"{"to":{"activity":"a"}}"#) && isMissing(#" {"activity":"a","to":{"users":["u"]}}"#))
    #expect(isMissing(#"{"collapse_id":"c","to":{"token":"00"}}"#))
    #expect(!isMissing(#"{"collapse_id":"c","sequence":1}"#) && !isMissing(#"{"sequence":null,"collapse_id":"c"}"#))
    #expect(!isMissing(#"{"to":{"token":"00"}}"#) && !isMissing(#"{"to":"activity"}"#) && !isMissing("{}"))
    // A worker refuses it.
    #expect(!isMissing(#"{"collapse_id":"c""#) && !isMissing("") && !isMissing("[]"))
  }

  @Test func adding_leavesAllElse() {
    func adding(_ text: String) -> String {
      String(decoding: JobSequence.adding(7, to: Array(text.utf8)), as: UTF8.self)
    }
    #expect(adding(" \t{ \"a\" : \"{\" }\r") == " \t{\"sequence\":7, \"a\" : \"{\" }\r")
    #expect(adding("x") == "x")
    let large = "{\"a\":\"" + String(repeating: "x", count: Limits.jobBytesMaximum - 10) + "\"}"
    #expect(adding(large) == large, "it would be too large")
  }
}
