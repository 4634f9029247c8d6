import FaultTable
import Testing

/// A short run of each row of the fault table: nothing is lost, repeated or refused. Times and rates are judged by
/// `herald-bench faults`, which runs the same at full length and alone.
@Suite(.serialized) struct FaultTableTests {
  @Test(.timeLimit(.minutes(2)), arguments: FaultRow.allCases)
  func holds(_ row: FaultRow) throws {
    let result = try FaultRun.run(row, .short(row))
    #expect(result.problems.isEmpty, "\(row.fault): \(result.figures.map { "\($0.name) \($0.value)" })")
    #expect((result.value("offered") ?? 0) > 500)
    #expect(result.value("lost") == 0)
  }
}
