import PushOperations
import Testing

@Suite struct TextTableTests {
  @Test func columnsAreAsWideAsTheirWidestText() {
    #expect(TextTable.lines([["A", "LONGER", "C"], ["123", "x", ""], ["1"]]) == ["A    LONGER  C", "123  x", "1"])
    #expect(TextTable.lines([]).isEmpty)
  }

  @Test func whatIsTooLongIsCutButInTheLastColumn() {
    #expect(TextTable.line(["12345", "1234567890"], widths: [4]) == "123…  1234567890")
    #expect(TextTable.line(["1234", "x"], widths: [4, 3]) == "1234  x")
  }

  @Test func nothingMovesTheCursor() {
    #expect(TextTable.lines([["a\u{1B}[2Jb", "c"], ["a\nb\u{7F}", "d"]]) == ["a [2Jb  c", "a b     d"])
  }
}
