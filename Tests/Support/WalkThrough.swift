import Foundation

/// Sections of a page of `docs/` whose commands a reader copies, as one script, and what the page says that they print.
package struct WalkThrough {
  /// What stands in blocks of `sh`.
  package private(set) var commands = ""
  /// What stands in the blocks without a language.
  package private(set) var expected = ""

  /// - Parameters:
  ///   - page: under `docs/`.
  ///   - headings: of its sections, in their order.
  package init(_ page: String, _ headings: [String]) throws {
    let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../docs")
    let text = try String(contentsOf: root.appending(path: page), encoding: .utf8)
    let sections = text.components(separatedBy: "\n## ")
    for heading in headings {
      guard let section = sections.first(where: { $0.hasPrefix(heading + "\n") }) else {
        throw TestFailure("\(page) has no section \(heading)")
      }
      for (index, block) in section.components(separatedBy: "\n```").enumerated() where index % 2 == 1 {
        if block.hasPrefix("sh\n") {
          commands += block.dropFirst(3) + "\n"
        } else {
          expected += block.dropFirst() + "\n"
        }
      }
    }
  }

  /// A test takes no fixed ports, and no servers of its machine.
  package mutating func replace(_ text: String, with other: String) throws {
    guard commands.contains(text) else { throw TestFailure("no command has \(text)") }
    commands = commands.replacing(text, with: other)
  }

  /// Runs the commands in this folder, as a reader would; the first that fails ends it.
  /// - Parameter environment: as of `ChildProcess`, without a search path.
  package func run(
    in folder: TemporaryFolder, environment: [String], timeoutMilliseconds: Int
  ) throws(TestFailure) -> ChildProcess.Output {
    // Where a command fails, what runs in the background must not stay.
    let start = "set -eu\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\ncd '\(folder.path)'\n"
    let script = try folder.write(start + commands, to: "walk.sh")
    let programs = try BuiltProgram.path("herald").split(separator: "/").dropLast().map { "/\($0)" }.joined()
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    return try ChildProcess.run(
      ["/bin/bash", script], environment: environment + ["PATH=\(programs):\(path)"],
      timeoutMilliseconds: timeoutMilliseconds)
  }
}
