import Foundation
import Glibc
package import PushCore
import PushIO

/// The file of API keys: one JSON object a line. It has the keys' hashes, never a key itself.
package struct APIKeyFile: Sendable {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  /// A line of the file.
  struct Line: Sendable {
    let text: Data
    /// nil: the line is no key.
    let key: APIKey?
  }

  package let path: String

  package init(_ path: String) {
    self.path = path
  }

  /// Reads all keys; none if the file does not exist.
  package func read() throws(Failure) -> StoredKeys {
    FileManager.default.fileExists(atPath: path) ? APIKeyFile.keys(try lines()) : StoredKeys()
  }

  /// Reads all keys, unless the file is the one that was read before. A file that does not exist is an error: whoever lost it must not lose
  /// its keys too.
  /// - Parameter content: what was read before; it becomes what is read now.
  /// - Returns: nil: nothing has changed.
  func read(since content: inout Data?) throws(Failure) -> StoredKeys? {
    guard FileManager.default.fileExists(atPath: path) else { throw absence }
    let now = try contents()
    guard now != content else { return nil }
    content = now
    return APIKeyFile.keys(APIKeyFile.lines(now))
  }

  /// Reads it as a gateway does, for `herald check`. Throws also if it has lines that are no keys.
  /// - Returns: how many keys it has.
  package func check() throws(Failure) -> Int {
    var content: Data?
    let stored = try read(since: &content) ?? StoredKeys()
    guard stored.unreadable.isEmpty else {
      throw Failure(description: StoredKeys.text(ofUnreadable: stored.unreadable, in: "the keys file \(path)"))
    }
    return stored.keys.count
  }

  private func contents() throws(Failure) -> Data {
    do {
      return try Data(contentsOf: URL(filePath: path))
    } catch {
      throw Failure(description: "the keys file \(path) cannot be read: \(APIKeyFile.reason(error))")
    }
  }

  private var folder: String { URL(filePath: path).deletingLastPathComponent().path(percentEncoded: false) }

  /// Why there is no file.
  private var absence: Failure {
    do {
      _ = try FileManager.default.contentsOfDirectory(atPath: folder)
      return Failure(description: "the keys file \(FileName.shown(path)) does not exist: `herald keys create` makes it")
    } catch {
      return Failure(
        description: "the folder of the keys file \(FileName.shown(path)) cannot be read: \(APIKeyFile.reason(error))")
    }
  }

  /// The system's words, without those that Foundation adds.
  private static func reason(_ error: any Error) -> String {
    let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error ?? error
    let facts = cause as NSError
    return facts.domain == NSPOSIXErrorDomain ? systemErrorText(Int32(facts.code)) : facts.localizedDescription
  }

  private func lines() throws(Failure) -> [Line] { APIKeyFile.lines(try contents()) }

  private static func lines(_ data: Data) -> [Line] {
    data.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false).map {
      Line(text: Data($0), key: APIKey(json: Array($0)))
    }
  }

  private static func keys(_ lines: [Line]) -> StoredKeys {
    var stored = StoredKeys()
    for (index, line) in lines.enumerated() {
      if let key = line.key {
        stored.keys.append(key)
      } else if !line.text.isEmpty {
        stored.unreadable.append("line \(index + 1)")
      }
    }
    return stored
  }

  /// Changes the keys. Waits for other processes that change them. Lines that are no key stay as they are.
  /// - Parameter edit: returns the new lines; nil: nothing changes.
  /// - Returns: whether the file changed.
  @discardableResult
  func change(_ edit: ([Line]) throws -> [Line]?) throws -> Bool {
    // The lock is on the folder, because each change replaces the file.
    guard let lock = FileHandle(forReadingAtPath: folder) else { throw absence }
    defer { try? lock.close() }
    while flock(lock.fileDescriptor, LOCK_EX) != 0 {
      guard errno == EINTR else {
        throw Failure(description: "the folder of the keys file \(path) cannot be locked: \(systemErrorText(errno))")
      }
    }
    let old = FileManager.default.fileExists(atPath: path) ? try lines() : []
    guard let lines = try edit(old) else { return false }
    try write(lines)
    return true
  }

  /// Replaces the file atomically. Only its owner may read it.
  private func write(_ lines: [Line]) throws {
    var text = Data()
    for line in lines where !line.text.isEmpty { text += line.text + Data("\n".utf8) }
    let file = URL(filePath: path)
    try text.write(to: file, options: .atomic)
    try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
  }
}

extension APIKeyFile.Line {
  init(_ key: APIKey) throws {
    self.init(text: Data(try key.json().utf8), key: key)
  }
}

/// The API keys of a store. One that cannot be read is left out: it does not work, and no other one is affected.
package struct StoredKeys: Sendable {
  package var keys: [APIKey] = []
  /// Where a value is that is no key: its id in Redis, its line in a file.
  package var unreadable: [String] = []

  /// Tells the ids and hashes of these keys from others', whatever file they are in, and whenever it was written. Below 0: builds before
  /// told the file's time instead, and take this for an older one.
  var digest: Int64 {
    let texts = Dictionary(keys.map { ($0.id, $0.hash) }) { $1 }.map { "\($0.key) \($0.value)\n" }.sorted()
    return SHA256Digest.of(texts.joined().utf8.span).prefix(8).reduce(.zero) { $0 << 8 | Int64($1) } | .min
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
