import Foundation
import Yams

/// A YAML file as a list of (path, input, line): flat, untyped, with line numbers for messages.
struct ConfigurationFile {
  struct Entry {
    var path: String
    var input: ConfigurationInput
    var line: Int?
  }

  /// One entry of a list of mappings.
  struct Item {
    /// nil: not a mapping.
    var entries: [Entry]?
    var line: Int?
  }

  /// Larger than any configuration; the path is probably wrong.
  private static let bytesMaximum = 1 << 20

  let name: String
  private(set) var options: [Entry] = []
  private(set) var credentials: [Item] = []
  /// `gateway.applications`, by code: each with its keys; those of an inner mapping behind a dot.
  private(set) var applications: [(code: String, item: Item)] = []
  private(set) var problems: [ConfigurationError.Problem] = []

  /// Reads and flattens the file. Errors are collected in `problems`.
  init(path: String) {
    name = path
    guard let data = FileManager.default.contents(atPath: path) else {
      problem(nil, "", FileManager.default.fileExists(atPath: path) ? "cannot be read" : "does not exist")
      return
    }
    guard data.count <= Self.bytesMaximum else {
      problem(nil, "", "is larger than \(Self.bytesMaximum) bytes: not a configuration")
      return
    }
    guard let text = String(data: data, encoding: .utf8) else {
      problem(nil, "", "is not UTF-8 text")
      return
    }
    read(text)
  }

  /// An entry's position: `herald.yaml:12`.
  func origin(_ line: Int?) -> String {
    line.map { "\(name):\($0)" } ?? name
  }

  private mutating func read(_ text: String) {
    let root: Node?
    do {
      root = try compose(yaml: text)
    } catch let error as YamlError {
      let (line, what) = Self.place(of: error)
      problem(line, "", what)
      return
    } catch {
      problem(nil, "", "is not YAML: \(error)")
      return
    }
    guard let root, !Self.isNull(root) else { return }
    guard case .mapping(let mapping) = root else {
      problem(root.mark?.line, "", "must be a mapping of sections and options")
      return
    }
    for (key, value) in mapping {
      let line = key.mark?.line
      guard let name = key.scalar?.string else {
        problem(line, "", "a key must be a word")
        continue
      }
      if name == "credentials" {
        readCredentials(value, line)
      } else if ConfigurationOption.sections.contains(name) {
        readSection(name, value, line)
      } else {
        options.append(Entry(path: name, input: Self.input(value), line: line))
      }
    }
  }

  private mutating func readSection(_ section: String, _ node: Node, _ line: Int?) {
    // A section whose options are all commented out.
    if Self.isNull(node) { return }
    guard case .mapping(let mapping) = node else {
      problem(line, section, "must be a mapping of options")
      return
    }
    for entry in mapping where section == "gateway" && entry.key.scalar?.string == "applications" {
      readApplications(entry.value, entry.key.mark?.line)
    }
    options += entries(mapping, prefix: section + ".").filter { $0.path != "gateway.applications" }
  }

  private mutating func readApplications(_ node: Node, _ line: Int?) {
    if Self.isNull(node) { return }
    guard case .mapping(let mapping) = node else {
      problem(line, "gateway.applications", "must be a mapping of application codes")
      return
    }
    for (key, value) in mapping {
      var found: [Entry]?
      if case .mapping(let inner) = value {
        found = inner.flatMap { name, value -> [Entry] in
          guard case .mapping(let deeper) = value else { return entries(Node.Mapping([(name, value)]), prefix: "") }
          return entries(deeper, prefix: (name.scalar?.string ?? "?") + ".")
        }
      }
      applications.append((key.scalar?.string ?? "?", Item(entries: found, line: key.mark?.line)))
    }
  }

  private mutating func readCredentials(_ node: Node, _ line: Int?) {
    if Self.isNull(node) { return }
    guard case .sequence(let sequence) = node else {
      problem(line, "credentials", "must be a list")
      return
    }
    for node in sequence {
      if case .mapping(let mapping) = node {
        credentials.append(Item(entries: entries(mapping, prefix: ""), line: node.mark?.line))
      } else {
        credentials.append(Item(entries: nil, line: node.mark?.line))
      }
    }
  }

  private func entries(_ mapping: Node.Mapping, prefix: String) -> [Entry] {
    mapping.map { key, value in
      Entry(path: prefix + (key.scalar?.string ?? "?"), input: Self.input(value), line: key.mark?.line)
    }
  }

  private mutating func problem(_ line: Int?, _ path: String, _ text: String) {
    problems.append(ConfigurationError.Problem(origin: origin(line), path: path, text: text))
  }

  private static func input(_ node: Node) -> ConfigurationInput {
    if isNull(node) { return .null }
    switch node {
    case .scalar(let scalar): return .scalar(scalar.string, isPlain: scalar.style == .plain)
    case .sequence(let sequence): return .list(sequence.map(input))
    case .mapping, .alias: return .mapping
    }
  }

  private static func isNull(_ node: Node) -> Bool {
    guard let scalar = node.scalar, scalar.style == .plain else { return false }
    return ["", "~", "null", "Null", "NULL"].contains(scalar.string)
  }

  private static func place(of error: YamlError) -> (line: Int?, text: String) {
    switch error {
    case .scanner(let context, let problem, let mark, _), .parser(let context, let problem, let mark, _),
      .composer(let context, let problem, let mark, _):
      let surrounding = context.map { " \($0.text)" } ?? ""
      return (mark.line, "is not YAML: \(problem)\(surrounding) (column \(mark.column))")
    case .duplicatedKeysInMapping(let duplicates, let context):
      let names = duplicates.sorted().map { ServiceAddress.hidden($0) }.joined(separator: ", ")
      return (context.mark.line, "the mapping that begins here has the key \(names) twice")
    case .reader(let problem, _, _, _), .writer(let problem), .emitter(let problem), .representer(let problem):
      return (nil, "is not YAML: \(problem)")
    case .no, .memory, .dataCouldNotBeDecoded:
      return (nil, "is not YAML")
    }
  }
}
