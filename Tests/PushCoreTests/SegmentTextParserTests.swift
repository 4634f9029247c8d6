import PushCore
import Testing

/// The text form of filters: the same trees as those of JSON.
@Suite struct SegmentTextParserTests {
  private func json(_ text: String) -> String {
    do throws(SegmentFilterError) {
      return String(decoding: try SegmentFilterParser.parse(Array(text.utf8)).json, as: UTF8.self)
    } catch {
      return error.description
    }
  }

  @Test func everyOperatorIsTaken() {
    let cases: [(String, String)] = [
      (#"T("plan", EQ, "gold")"#, #"{"tag":"plan","is":"gold"}"#),
      (#"T ( "age" , EQ , 7 ) "#, #"{"tag":"age","is":7}"#),
      (#"T("vip", EQ, true)"#, #"{"tag":"vip","is":true}"#),
      (#"T("plan", NOTEQ, "gold")"#, #"{"not":{"tag":"plan","is":"gold"}}"#),
      (#"T("age", GTE, 17)"#, #"{"tag":"age","at_least":17}"#),
      (#"T("age", LTE, -1.5)"#, #"{"tag":"age","at_most":-1.5}"#),
      (#"T("age", BETWEEN, [17, 20])"#, #"{"all":[{"tag":"age","at_least":17},{"tag":"age","at_most":20}]}"#),
      (#"T("c", IN, ["red","gr\"een", 3])"#, #"{"tag":"c","in":["red","gr\"een",3]}"#),
      (#"T("c", NOTIN, ["red"])"#, #"{"not":{"tag":"c","in":["red"]}}"#),
    ]
    for (text, expected) in cases { #expect(json(text) == expected, "\(text)") }
  }

  @Test func setsAreJoined() {
    let a = #"T("a",EQ,1)"#
    let b = #"T("b",EQ,2)"#
    let c = #"T("c",EQ,3)"#
    let (ja, jb, jc) = (#"{"tag":"a","is":1}"#, #"{"tag":"b","is":2}"#, #"{"tag":"c","is":3}"#)
    let cases: [(String, String)] = [
      ("(\(a))", ja),
      ("\(a)+\(b) + \(c)", #"{"any":[\#(ja),\#(jb),\#(jc)]}"#),
      ("\(a) * \(b)", #"{"all":[\#(ja),\#(jb)]}"#),
      ("\(a) + \(b) * \(c)", #"{"any":[\#(ja),{"all":[\#(jb),\#(jc)]}]}"#),
      ("\(a) * \(b) + \(c)", #"{"any":[{"all":[\#(ja),\#(jb)]},\#(jc)]}"#),
      ("(\(a) + \(b)) * \(c)", #"{"all":[{"any":[\#(ja),\#(jb)]},\#(jc)]}"#),
      ("\(a) \\ \(b)", #"{"all":[\#(ja),{"not":\#(jb)}]}"#),
      ("\(a) \\ \(b) \\ \(c)", #"{"all":[\#(ja),{"not":\#(jb)},{"not":\#(jc)}]}"#),
      ("((\(a) * \(b)) \\ \(c))", #"{"all":[\#(ja),\#(jb),{"not":\#(jc)}]}"#),
      ("\(a) \\ (\(b) + \(c))", #"{"all":[\#(ja),{"not":{"any":[\#(jb),\#(jc)]}}]}"#),
    ]
    for (text, expected) in cases { #expect(json(text) == expected, "\(text)") }
  }

  /// Clients put parentheses around each operator: they are no levels.
  @Test func pairsInPairsAreFlat() {
    var text = #"T("t",EQ,0)"#
    for number in 1..<64 { text = "(\(text) + T(\"t\",EQ,\(number)))" }
    #expect(json(text).hasPrefix(#"{"any":[{"tag":"t","is":0},{"tag":"t","is":1},"#))
    #expect(
      json(text + #"+T("t",EQ,64)"#)
        == "the filter, at byte \(text.utf8.count + 12), is one condition more than a filter's 64")
    let open = String(repeating: "(", count: 65)
    #expect(json(open).hasPrefix("the filter, at byte 64, is more than 64 parentheses deep"))
    #expect(json(String(repeating: "(", count: 60_000)).hasPrefix("the filter, at byte 64, is more than"))
    var deep = #"T("t",EQ,0)"#
    for number in 1...8 { deep = "(\(deep) \(number % 2 == 0 ? "+" : "*") T(\"t\",EQ,\(number)))" }
    #expect(json(deep) == "the filter, at byte 0, is nested deeper than 8 levels")
  }

  @Test func refusalsNameTheByte() {
    let cases: [(String, String)] = [
      (#"T("plan", EQ, "gold"#, "the filter, at byte 19, is broken: ends too early"),
      (#"T("plan", EQL, "gold")"#, "the filter, at byte 10, EQL is no operator; did you mean EQ?"),
      (#"T("plan", eq, "gold")"#, "the filter, at byte 10, eq is no operator; did you mean EQ?"),
      (#"T("plan", CONTAINS, "gold")"#, "the filter, at byte 10, CONTAINS is no operator; they are EQ, NOTEQ"),
      (#"T("", EQ, 1)"#, "the filter, at byte 2, is no tag's name: it must be 1 to 64 bytes, not 0"),
      (#"T(plan, EQ, 1)"#, "the filter, at byte 2, must be a string in double quotes, not p"),
      (#"T("a", EQ, 1"#, "the filter, at byte 12, must go on with )"),
      (#"T("a", EQ, 1))"#, "the filter, at byte 13, must go on with +, * or \\, or end, not )"),
      (#"T("a", EQ, 1) T("a", EQ, 1)"#, "the filter, at byte 14, must go on with +, * or \\, or end, not T"),
      (#"T("a", EQ, 1) +"#, "the filter, at byte 15, must be T("),
      (
        #"T("a", EQ, gold)"#,
        "the filter, at byte 11, must be a string in double quotes, a number, true or false, not g"
      ),
      (
        #"T("a", GTE, "2024-10-02 00:00")"#,
        "the filter, at byte 12, must be a number: GTE compares numbers, not texts or dates"
      ),
      (#"T("a", IN, "x")"#, "the filter, at byte 11, must be a list in brackets for IN, not \""),
      (#"T("a", BETWEEN, [3])"#, "the filter, at byte 16, must be the smallest and the largest number"),
      (#"T("a", BETWEEN, [3, 2])"#, "the filter, at byte 16, must be the smallest and the largest number"),
      (#"A("AAAAA-BBBBB") * T("a", EQ, 1)"#, "the filter, at byte 0, must not name an app: leave A(…) away"),
      (#"AT("AAAAA-BBBBB", "a", EQ, 1)"#, "the filter, at byte 0, must not name an app"),
      (#"U("a")"#, "the filter, at byte 0, must be T(\"tag\", OPERATOR, value), not U"),
      (
        #"T("a", EQ, 1) + T("b", EQ, 1) \ T("c", EQ, 1)"#,
        "the filter, at byte 30, needs parentheses: \\ stands beside + or *"
      ),
      (#"T("a", EQ, 1e999)"#, "the filter, at byte 11, must be a number that 64 bits hold"),
      ("7", "the filter, at byte 0, must be T("),
      ("é", "the filter, at byte 0, must be T(\"tag\", OPERATOR, value) or a parenthesis, not \\xc3"),
    ]
    for (text, expected) in cases {
      let seen = json(text)
      #expect(seen.hasPrefix(expected), "\(text): \(seen)")
    }
  }
}
