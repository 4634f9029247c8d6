import Glibc

/// How messages name a configured file. Where its path belongs, somebody may have put its content: a token, a passphrase.
package enum FileName {
  /// Endings of files' names, which a secret does not have.
  private static let endings: Set<String> = [
    "cer", "crt", "hex", "json", "jsonl", "key", "p12", "p8", "pem", "pfx", "token", "txt", "yaml", "yml",
  ]

  /// The path, if the file is there or its name ends like a file's. Else the part of it that is there, and how long the rest is.
  package static func shown(_ path: String) -> String {
    if exists(path) || hasEnding(path) { return path }
    var folder = path[...]
    while let slash = folder.lastIndex(of: "/") {
      folder = folder[..<slash]
      if exists("\(folder)/") { return "\(folder)/… (a name of \(path.count - folder.count - 1) characters)" }
    }
    return "… (a name of \(path.count) characters)"
  }

  private static func hasEnding(_ path: String) -> Bool {
    guard let dot = path.lastIndex(of: ".") else { return false }
    return endings.contains(path[path.index(after: dot)...].lowercased())
  }

  private static func exists(_ path: some StringProtocol) -> Bool {
    unsafe access(String(path), F_OK) == 0
  }
}
