import Foundation
import PushCore
import Testing

/// The schema's examples and the parser agree on filters of segments.
@Suite struct SegmentSchemaTests {
  private func lines(_ name: String) throws -> [String] {
    let path = URL(filePath: #filePath).deletingLastPathComponent()
      .appending(path: "../../config/schemas/examples/\(name)")
    return try String(contentsOf: path, encoding: .utf8).split(separator: "\n").map(String.init)
  }

  @Test func validExamplesAreTaken() throws {
    let lines = try lines("segment-filter.valid.jsonl")
    #expect(lines.count > 15)
    for line in lines { #expect(throws: Never.self, "\(line)") { try SegmentFilterParser.parse(Array(line.utf8)) } }
  }

  @Test func invalidExamplesAreRefused() throws {
    let lines = try lines("segment-filter.invalid.jsonl")
    #expect(lines.count > 20)
    for line in lines {
      let example = try #require(try JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])
      let filter = try JSONSerialization.data(withJSONObject: try #require(example["instance"]))
      #expect(throws: SegmentFilterError.self, "\(line)") { try SegmentFilterParser.parse(Array(filter)) }
    }
  }
}
