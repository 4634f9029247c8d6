import Foundation
import Glibc
package import PushCore
import PushIO

/// The file of API keys: one JSON object a line. It has the keys' hashes, never a key itself.
package struct APIKeyFile: Sendable {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  package let path: String

  package init(_ path: String) {
    self.path = path
  }

  /// Reads all keys; none if the file does not exist.
  package func read() throws(Failure) -> [APIKey] {
    FileManager.default.fileExists(atPath: path) ? try readExisting() : []
  }

  /// Reads all keys. A file that does not exist is an error: whoever lost it must not lose its keys too.
  package func readExisting() throws(Failure) -> [APIKey] {
    guard FileManager.default.fileExists(atPath: path) else {
      throw Failure(description: "the keys file \(path) does not exist: `herald keys create` makes it")
    }
    guard let data = FileManager.default.contents(atPath: path) else {
      throw Failure(description: "the keys file \(path) cannot be read")
    }
    var keys: [APIKey] = []
    for (index, line) in data.split(separator: UInt8(ascii: "\n")).enumerated() {
      guard let key = try? JSONDecoder().decode(APIKey.self, from: Data(line)) else {
        throw Failure(
          description:
            "line \(index + 1) of the keys file \(path) is not a key in the format of `herald keys create`: remove the line"
        )
      }
      keys.append(key)
    }
    return keys
  }

  /// Changes the keys. Waits for other processes that change them.
  /// - Parameter edit: returns the new keys; nil: nothing changes.
  /// - Returns: whether the file changed.
  @discardableResult
  func change(_ edit: ([APIKey]) -> [APIKey]?) throws -> Bool {
    // The lock is on the folder, because each change replaces the file.
    let folder = URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false)
    guard let lock = FileHandle(forReadingAtPath: folder) else {
      throw Failure(description: "the folder of the keys file \(path) cannot be read")
    }
    defer { try? lock.close() }
    while flock(lock.fileDescriptor, LOCK_EX) != 0 {
      guard errno == EINTR else {
        throw Failure(description: "the folder of the keys file \(path) cannot be locked: \(systemErrorText(errno))")
      }
    }
    guard let keys = edit(try read()) else { return false }
    try write(keys)
    return true
  }

  /// Replaces the file atomically. Only its owner may read it.
  private func write(_ keys: [APIKey]) throws {
    let text = try keys.map { try $0.json() + "\n" }.joined()
    let file = URL(filePath: path)
    try Data(text.utf8).write(to: file, options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }
}

extension APIKey {
  /// The stored form of a key: one line, without a line break.
  func json() throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(self), as: UTF8.self)
  }

  /// nil: not in the format of `json`.
  init?(json: [UInt8]) {
    guard let key = try? JSONDecoder().decode(APIKey.self, from: Data(json)) else { return nil }
    self = key
  }
}
