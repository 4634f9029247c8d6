import ArgumentParser
import FaultTable
import Foundation

struct FaultBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "faults",
    abstract:
      "A lane against a simulated APNs that misbehaves: what is lost, what is sent twice, how fast it recovers.",
    discussion: """
      Rows: \(FaultRow.allCases.map(\.rawValue).joined(separator: ", ")). Exits 1 where a row does not hold.
      """)

  @Argument(help: "Rows to run; all where none is named.")
  var rows: [String] = []

  @Option(help: "Jobs offered a second.")
  var rate = 5_000.0

  @Flag(help: "As short as the tests run it.")
  var short = false

  @Flag(help: "Print a JSON object for each row.")
  var json = false

  func validate() throws {
    for row in rows where FaultRow(rawValue: row) == nil {
      throw ValidationError("\(row) is no row; rows are \(FaultRow.allCases.map(\.rawValue).joined(separator: ", "))")
    }
    if rate < 10 { throw ValidationError("--rate must be at least 10") }
  }

  func run() throws {
    let chosen = rows.isEmpty ? FaultRow.allCases : rows.compactMap(FaultRow.init)
    var isHeld = true
    for row in chosen {
      let result = try FaultRun.run(row, short ? .short(row) : .full(row, rate: rate))
      isHeld = isHeld && result.isHeld
      try show(result)
    }
    if !isHeld { throw ExitCode(1) }
  }

  private func show(_ result: FaultResult) throws {
    if json {
      var object: [String: Any] = [
        "row": result.row.rawValue, "fault": result.row.fault, "held": result.isHeld, "problems": result.problems,
        "misses": result.misses,
      ]
      for figure in result.figures { object[figure.name] = figure.value }
      print(String(decoding: try JSONSerialization.data(withJSONObject: object, options: [.sortedKeys]), as: UTF8.self))
      return
    }
    print("\(result.isHeld ? "ok  " : "FAIL") \(result.row.rawValue): \(result.row.fault)")
    for problem in result.problems + result.misses { print("     ! \(problem)") }
    for figure in result.figures {
      print("     \(figure.name): \(String(format: "%.6g", figure.value)) \(figure.unit)")
    }
  }
}
