import Foundation
import PushSettings
import TestSupport
import Testing

/// `config/herald.yaml` is the manual: it must describe every option as the table does.
@Suite struct ConfigurationManualTests {
  private let path = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../config/herald.yaml")
    .path(percentEncoded: false)

  @Test func theFileLoadsAndChangesNothing() throws {
    let file = try ConfigurationLoader.load(file: path)
    let defaults = try ConfigurationLoader.load(file: nil)
    for (ours, theirs) in zip(file.effective, defaults.effective) {
      #expect(ours.value == theirs.value, "\(ours.path)")
    }
    #expect(file.credentials.isEmpty)
  }

  @Test func everyOptionIsDocumentedAboveItsKey() throws {
    let lines = try String(contentsOfFile: path, encoding: .utf8).split(
      separator: "\n", omittingEmptySubsequences: false)
    var section = ""
    var comment = ""
    var documented: [String: String] = [:]
    for line in lines {
      let text = line.trimmingCharacters(in: .whitespaces)
      if text.hasPrefix("#") {
        comment += " " + text.dropFirst().trimmingCharacters(in: .whitespaces)
        continue
      }
      if let colon = text.firstIndex(of: ":"), !text.isEmpty {
        let key = String(text[..<colon])
        if line.hasPrefix("  ") {
          documented["\(section).\(key)"] = comment
        } else {
          section = key
          documented[key] = comment
        }
      }
      comment = ""
    }
    for option in ConfigurationOption.all {
      let text = documented[option.path] ?? ""
      #expect(
        text.contains("\(option.purpose) \(option.summary)"), "\(option.path): \(option.purpose) \(option.summary)")
      documented[option.path] = nil
    }
    let sections = Set(
      ConfigurationOption.all.compactMap { $0.path.split(separator: ".").dropLast().first.map(String.init) })
    #expect(Set(documented.keys) == sections.union(["credentials"]))
  }

  @Test func theExampleOfCredentialsLoads() throws {
    let text = try String(contentsOfFile: path, encoding: .utf8)
    let lines = text.split(separator: "\n").drop { $0 != "# Example:" }.dropFirst().prefix { $0.hasPrefix("#   ") }
    let folder = try TemporaryFolder("manual")
    try folder.write("phrase", to: "desk.passphrase")
    let example = try folder.write(lines.map { $0.dropFirst(4) }.joined(separator: "\n"), to: "herald.yaml")
    #expect(try ConfigurationLoader.load(file: example).credentials.map(\.name) == ["main", "calls", "wallet", "desk"])
  }
}
