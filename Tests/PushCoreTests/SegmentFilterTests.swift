import PushCore
import TestSupport
import Testing

/// Filters in JSON: what is taken, and what names place and rule.
@Suite struct SegmentFilterTests {
  private func parse(_ text: String) throws(SegmentFilterError) -> SegmentFilter {
    try SegmentFilterParser.parse(Array(text.utf8))
  }

  private func refusal(_ text: String) -> String {
    do throws(SegmentFilterError) {
      return "taken: \(try parse(text))"
    } catch {
      return error.description
    }
  }

  @Test func everyConditionIsTaken() throws {
    let code = try #require(SegmentCode("eu:gold-1_a.b"))
    let cases: [(String, SegmentCondition)] = [
      (#"{"tag":"plan","is":"gold"}"#, .tagIs("plan", .text("gold"))),
      (#" { "is" : 7.0 , "tag" : "level" } "#, .tagIs("level", .number(7))),
      (#"{"tag":"vip","is":false}"#, .tagIs("vip", .flag(false))),
      (#"{"tag":"plan","in":["gold",1,true,"gold",1.0]}"#, .tagIn("plan", [.text("gold"), .number(1), .flag(true)])),
      (#"{"tag":"level","at_least":-0}"#, .tagAtLeast("level", 0)),
      (#"{"tag":"level","at_most":1e3}"#, .tagAtMost("level", 1000)),
      (#"{"tag":"a\/\u00e9\"","exists":true}"#, .tagExists("a/é\"")),
      (#"{"locale":"en_GB"}"#, .locale("en-gb")),
      (#"{"os_at_least":"18"}"#, .osAtLeast(OSVersion(major: 18))),
      (#"{"os_at_least":"18.1.2"}"#, .osAtLeast(OSVersion(major: 18, minor: 1, patch: 2))),
      (#"{"seen_within":"30d"}"#, .seenWithin(days: 30)),
      (#"{"has":"token"}"#, .hasToken),
      (#"{"has":"push_to_start:RideAttributes"}"#, .hasPushToStart("RideAttributes")),
      (#"{"has":"push_to_start:*"}"#, .hasPushToStart("*")),
      (#"{"segment":"eu:gold-1_a.b"}"#, .segment(code)),
    ]
    for (text, condition) in cases { #expect(try parse(text) == .leaf(condition), "\(text)") }
    let tree = try parse(#"{"all":[{"has":"token"},{"any":[{"not":{"locale":"en"}},{"segment":"s"}]}]}"#)
    #expect(
      tree
        == .all([
          .leaf(.hasToken), .any([.not(.leaf(.locale("en"))), .leaf(.segment(try #require(SegmentCode("s"))))]),
        ]))
    #expect(tree.depth == 4 && tree.conditionCount == 3 && tree.segments.map(\.text) == ["s"])
  }

  @Test func refusalsNamePlaceAndRule() {
    let cases: [(String, String)] = [
      ("", "the filter is empty"),
      (" \n", "the filter is empty"),
      ("[]", "the filter must be an object, not an array"),
      (#""plan""#, #"the filter must be an object, not "plan""#),
      (#"{"tag":"plan","is":"gold"}x"#, "the filter, at byte 26, is not JSON: nothing may follow the filter, not x"),
      (#"{"tag":"plan","is":"#, "the filter, at byte 19, is not JSON: ends too early"),
      ("{}", "the filter must have a condition: one of all, any, not, tag, locale, os_at_least"),
      (#"{"is":1}"#, "/is needs tag beside it"),
      (#"{"tag":"a"}"#, "/tag needs one of is, in, at_least, at_most, exists beside it"),
      (#"{"tag":"a","is":1,"at_most":2}"#, "/tag takes one of is and at_most; put two"),
      (#"{"locale":"en","has":"token"}"#, "the filter must be one condition, not locale and has; put them"),
      (#"{"locale":"en","is":1}"#, "/is does not go with locale"),
      (#"{"any":[{"has":"token"},{"tga":"plan","is":1}]}"#, "/any/1/tga is not a key of a filter; did you mean tag?"),
      (#"{"any":[{"has":"token"},{"tag":"","is":1}]}"#, "/any/1/tag is no tag's name: it must be 1 to 64 bytes, not 0"),
      (#"{"tag":"a","is":1,"tag":"b"}"#, "/tag must be there once, not twice"),
      (#"{"a/b~":1}"#, "/a~1b~0 is not a key of a filter; the keys are all, any, not"),
      (#"{"":1}"#, "/ is not a key"),
      (#"{"tag":"a","atleast":1}"#, "/atleast is not a key of a filter; did you mean at_least?"),
      (#"{"all":[]}"#, "/all must have at least one of its filters"),
      (#"{"all":{"has":"token"}}"#, "/all must be a list of filters, not an object"),
      (#"{"not":[{"has":"token"}]}"#, "/not must be an object, not an array"),
      (#"{"not":null}"#, "/not must be an object, not null"),
      (#"{"tag":7,"is":1}"#, "/tag must be a string, not 7"),
      (#"{"tag":"a","is":null}"#, "/is must be a string, a number, true or false, not null"),
      (#"{"tag":"a","is":[1]}"#, "/is must be a string, a number, true or false, not an array"),
      (#"{"tag":"a","in":[1,{}]}"#, "/in/1 must be a string, a number, true or false, not an object"),
      (#"{"tag":"a","in":[]}"#, "/in must have at least one of its values"),
      (#"{"tag":"a","in":"b"}"#, #"/in must be a list of values, not "b""#),
      (#"{"tag":"a","at_least":"3"}"#, #"/at_least must be a number, not "3""#),
      (#"{"tag":"a","at_least":1e999}"#, "/at_least must be a number that 64 bits hold, not 1e999"),
      (#"{"tag":"a","exists":false}"#, "/exists must be true, not false; {\"not\":"),
      (#"{"locale":"en--GB"}"#, "/locale must be a locale such as en-GB"),
      (#"{"locale":"en-"}"#, "/locale must be a locale such as en-GB"),
      (
        #"{"os_at_least":"18.x"}"#,
        #"/os_at_least must be a version such as 18.1: one to three numbers below 65536, not "18.x""#
      ),
      (#"{"os_at_least":"18.1.2.3"}"#, "/os_at_least must be a version"),
      (#"{"os_at_least":"65536"}"#, "/os_at_least must be a version"),
      (#"{"os_at_least":""}"#, "/os_at_least must be a version"),
      (#"{"os_at_least":18}"#, "/os_at_least must be a string, not 18"),
      (#"{"seen_within":"12h"}"#, #"/seen_within must be days such as 30d, from 1d to 1000d, not "12h""#),
      (#"{"seen_within":"0d"}"#, "/seen_within must be days"),
      (#"{"seen_within":"d"}"#, "/seen_within must be days"),
      (#"{"seen_within":"1001d"}"#, "/seen_within must be days"),
      (#"{"has":"tokens"}"#, "/has must be token, or push_to_start: with"),
      (#"{"has":"push_to_start:"}"#, "/has must be token, or push_to_start: with"),
      (#"{"segment":"a b"}"#, #"/segment must be 1 to 64 letters, digits, hyphens"#),
      (#"{"tag":"\u0001\ud800","is":1}"#, "the filter, at byte 14, is not JSON: half of a surrogate pair"),
    ]
    for (text, expected) in cases {
      let seen = refusal(text)
      #expect(seen.hasPrefix(expected), "\(text): \(seen)")
    }
  }

  @Test func boundsAreKept() throws {
    let leaf = #"{"has":"token"}"#
    func nested(_ depth: Int) -> String {
      String(repeating: #"{"not":"#, count: depth - 1) + leaf + String(repeating: "}", count: depth - 1)
    }
    #expect(try parse(nested(8)).depth == 8)
    #expect(refusal(nested(9)) == "/not/not/not/not/not/not/not/not is nested deeper than 8 levels")
    // As deep as bytes allow: no deeper than the parser goes.
    #expect(refusal(nested(8_000)).hasSuffix("is nested deeper than 8 levels"))
    func wide(_ count: Int) -> String {
      #"{"any":["# + Array(repeating: leaf, count: count).joined(separator: ",") + "]}"
    }
    #expect(try parse(wide(64)).conditionCount == 64)
    #expect(refusal(wide(65)) == "/any/64 is one condition more than a filter's 64")
    func values(_ count: Int) -> String {
      #"{"tag":"a","in":["# + (0..<count).map(String.init).joined(separator: ",") + "]}"
    }
    #expect(throws: Never.self) { try parse(values(64)) }
    #expect(refusal(values(65)) == "/in/64 is one value more than the 64 of an in")
    let name = String(repeating: "n", count: 64)
    let value = String(repeating: "v", count: 256)
    #expect(try parse(#"{"tag":"\#(name)","is":"\#(value)"}"#) == .leaf(.tagIs(name, .text(value))))
    #expect(refusal(#"{"tag":"\#(name)n","exists":true}"#) == "/tag is no tag's name: it must be 1 to 64 bytes, not 65")
    #expect(refusal(#"{"tag":"a","is":"\#(value)v"}"#) == "/is must be at most 256 bytes, not 257")
    #expect(refusal(String(repeating: " ", count: 65_537)) == "the filter must be at most 65536 bytes, not 65537")
  }

  /// What is given in fewer bytes than it is stored in: line feeds are two bytes here, and six in the canonical form.
  @Test func aFilterThatGrowsBeyondItsBoundIsRefused() {
    let value = String(repeating: #"\n"#, count: 250)
    let values = (0..<60).map { #""\#(value)\#($0)""# }.joined(separator: ",")
    #expect(refusal(#"{"tag":"a","in":[\#(values)]}"#).hasPrefix("the filter must be at most 65536 bytes, not 9"))
  }

  @Test func equalFiltersHaveEqualBytes() throws {
    let given =
      #" { "all" : [ { "is" : 1.50 , "tag" : "p\u006can" } , { "not" : { "locale" : "EN" } } , {"os_at_least":"18"}]}"#
    let canonical =
      #"{"all":[{"tag":"plan","is":1.5},{"not":{"locale":"en"}},{"os_at_least":"18.0"}]}"#
    #expect(String(decoding: try parse(given).json, as: UTF8.self) == canonical)
    #expect(try parse(canonical) == parse(given))
  }

  @Test func whatIsWrittenIsParsedToTheSame() throws {
    var random = SeededRandom(seed: 18)
    for round in 0..<1_500 {
      let filter = SegmentFilter.random(using: &random)
      let json = filter.json
      let parsed = try SegmentFilterParser.parse(json)
      #expect(parsed == filter, "round \(round): \(String(decoding: json, as: UTF8.self))")
      #expect(parsed.json == json)
    }
  }
}
