import Foundation
import PushCore
import Testing

/// The schema's examples and the parser agree: a job that validates against the schema is one that the worker accepts.
@Suite struct JobSchemaTests {
  private struct Example: Sendable, CustomTestStringConvertible {
    var line: Int
    var why: String
    var job: [UInt8]
    var testDescription: String { "line \(line) \(why)" }
  }

  private static func examples(_ name: String) throws -> [Example] {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../config/schemas/examples/\(name)")
    let text = try String(contentsOf: path, encoding: .utf8)
    return try text.split(separator: "\n").enumerated().map { index, line in
      guard name.contains("invalid") else { return Example(line: index + 1, why: "", job: Array(line.utf8)) }
      let object = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      let job = try JSONSerialization.data(withJSONObject: try #require(object["instance"]))
      return Example(line: index + 1, why: try #require(object["why"] as? String), job: Array(job))
    }
  }

  @Test func validExamplesAreTaken() throws {
    let examples = try Self.examples("job.valid.jsonl")
    #expect(examples.count > 20)
    for example in examples {
      let fault = fault(of: example)
      #expect(fault == nil, "\(example.testDescription)")
    }
  }

  @Test func invalidExamplesAreRefused() throws {
    let examples = try Self.examples("job.invalid.jsonl")
    #expect(examples.count > 40)
    for example in examples {
      #expect(fault(of: example) != nil, "\(example.testDescription)")
    }
  }

  private func fault(of example: Example) -> JobError? {
    var parser = JobParser()
    var job = PushJob()
    job.bytes = example.job
    job.bodyCount = example.job.count
    let messageID = Array("message-id".utf8)
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: messageID.span)
      return nil
    } catch {
      return error
    }
  }
}
