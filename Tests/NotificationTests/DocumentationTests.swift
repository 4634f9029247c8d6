import Foundation
import PushCore
import PushNotifications
import Testing

/// The examples in the documentation compile, and Herald accepts their jobs.
@Suite struct DocumentationTests {
  private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")

  /// Lines of code in a source's ```swift blocks, and where each stands.
  private static func examples() throws -> [(place: String, line: String)] {
    let folder = root.appending(path: "Sources/PushNotifications")
    var lines: [(String, String)] = []
    let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
    for case let file as URL in files where ["swift", "md"].contains(file.pathExtension) {
      let isSource = file.pathExtension == "swift"
      var isExample = false
      let text = try String(contentsOf: file, encoding: .utf8)
      for (number, line) in text.split(separator: "\n", omittingEmptySubsequences: false).enumerated() {
        let code = line.trimmingCharacters(in: .whitespaces)
        guard !isSource || code.hasPrefix("///") else {
          isExample = false
          continue
        }
        let content = isSource ? code.dropFirst(3).trimmingCharacters(in: .whitespaces) : code
        if content.hasPrefix("```") {
          isExample = content == "```swift"
        } else if isExample, !content.isEmpty, !content.hasPrefix("//"), content != "print(job.line)" {
          lines.append(("\(file.lastPathComponent):\(number + 1)", content))
        }
      }
    }
    return lines
  }

  @Test func examplesAreCompiledHere() throws {
    let compiled = try String(
      contentsOf: URL(filePath: #filePath).deletingLastPathComponent().appending(path: "NotificationExamples.swift"),
      encoding: .utf8)
    let known = Set(compiled.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) })
    let examples = try Self.examples()
    #expect(examples.count > 50)
    let strangers = examples.filter { !known.contains($0.line) }
    #expect(strangers.isEmpty)
  }

  @Test func examplesMakeJobsThatHeraldTakes() throws {
    let examples = try NotificationExamples.all()
    #expect(Set(examples.map(\.kind)) == Set(PushType.named.map(\.name)), "an example of every kind")
    for (kind, job) in examples {
      let parsed = try ParsedJob(job)
      #expect(parsed.job.pushType.name == kind)
      #expect(parsed.text(parsed.job.id) == job.id)
    }
  }
}

/// A job as Herald reads it.
final class ParsedJob {
  private(set) var job = PushJob()

  init(_ job: Job) throws(JobError) {
    var parser = JobParser()
    self.job.bytes = job.body
    self.job.bodyCount = job.body.count
    let none: [UInt8] = []
    try parser.parse(into: &self.job, fallbackID: none.span)
  }

  func text(_ range: ByteRange) -> String { String(decoding: job.bytes[range.range], as: UTF8.self) }
  var payload: String { text(job.payload) }
  var targets: [String] { job.targets.map(text) }
}
