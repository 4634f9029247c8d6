import ArgumentParser
import PushCore
import PushIO

struct JSONBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "json", abstract: "Parses and validates a 400-byte job, and writes its outcome.")

  @OptionGroup var options: BenchOptions

  func run() throws {
    var figures = Figures()
    let body = SampleJobs.body(1)
    for _ in 0..<options.runs {
      var parser = JobParser()
      var job = PushJob()
      let none: [UInt8] = []
      var used = ProcessUsage.current.cpuMicroseconds
      for _ in 0..<options.jobs {
        job.bytes.removeAll(keepingCapacity: true)
        job.bytes.append(contentsOf: body)
        job.bodyCount = body.count
        try parser.parse(into: &job, fallbackID: none.span)
      }
      figures.add(
        "parse and validate", Double(ProcessUsage.current.cpuMicroseconds - used) / Double(options.jobs), "µs/job")
      let writer = OutcomeWriter(worker: "bench/0")
      var output: [UInt8] = []
      let record = OutcomeRecord(
        outcome: .accepted, status: 200, attempts: 1, receivedAt: 1_796_000_000_000, sentAt: 1_796_000_000_004,
        completedAt: 1_796_000_000_031)
      used = ProcessUsage.current.cpuMicroseconds
      for _ in 0..<options.jobs {
        output.removeAll(keepingCapacity: true)
        writer.append(record, of: job, target: 0, apnsID: UUIDValue.apnsID(for: job, target: 0), to: &output)
      }
      figures.add(
        "write an outcome", Double(ProcessUsage.current.cpuMicroseconds - used) / Double(options.jobs), "µs/job")
    }
    try figures.show("json: a job of \(body.count) bytes", json: options.json)
  }
}

/// Jobs as a producer would write them, each with its own id and device.
enum SampleJobs {
  /// Mistakes of producers, in turn: broken JSON, a wrong value, an unknown key, a payload that breaks a rule.
  private static let mistakes: [(right: String, wrong: String)] = [
    ("\"meta\":{", "\"meta\":"), ("\"priority\":10", "\"priority\":7"), ("\"push_type\":", "\"pushtype\":"),
    ("\"badge\":1", "\"badge\":-1"), ("\"title\":", "\"title-loc-key\":\"K\",\"title\":"),
  ]

  /// A job of `body` with one mistake.
  static func invalidBody(_ number: Int) -> [UInt8] {
    let mistake = mistakes[number / 100 % mistakes.count]
    let text = String(decoding: body(number), as: UTF8.self)
    return Array(text.replacing(mistake.right, with: mistake.wrong).utf8)
  }

  /// The bytes of that job's device token.
  static func token(_ number: Int) -> [UInt8] {
    [UInt8](repeating: 0, count: 24) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (8 * (7 - $0))) }
  }

  static func id(_ number: Int) -> String { "8c1f6f0e-3a57-4d0c-9f0e-" + Hex.text(number, count: 12) }

  /// About 400 bytes.
  static func body(_ number: Int) -> [UInt8] {
    let id = id(number)
    let token = Hex.text(number, count: 64)
    return Array(
      """
      {"version":1,"id":"\(id)","app":"com.example.app","push_type":"alert","to":{"token":"\(token)"},"priority":10,\
      "collapse_id":"order-\(number)","payload":{"aps":{"alert":{"title":"Shipped","body":"Your order is on its way."},\
      "badge":1,"sound":"default"},"order":"\(number)"},"meta":{"campaign":"42"}}
      """.utf8)
  }
}
