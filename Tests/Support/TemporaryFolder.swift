/// A temporary folder, removed with its value (and by the watchdog after a crash).
import Foundation

package final class TemporaryFolder: Sendable {
  /// Absolute, without a trailing slash.
  package let path: String

  /// `name`: prefix of the folder's name, for people who look at the files of a running test.
  package init(_ name: String = "test") throws(TestFailure) {
    let parent = ProcessInfo.processInfo.environment["TMPDIR"] ?? "/tmp"
    path = "\(parent)/herald-\(name)-\(ProcessInfo.processInfo.processIdentifier)-\(UInt32.random(in: 0 ... .max))"
    do {
      try FileManager.default.createDirectory(
        atPath: path, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw TestFailure("cannot create the folder \(path): \(error)")
    }
    Watchdog.shared.remember(folder: path)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
    Watchdog.shared.forget(folder: path)
  }

  /// The path of a file or folder in this one.
  package func path(_ name: String) -> String {
    "\(path)/\(name)"
  }

  /// Writes a file with these permissions and returns its path.
  @discardableResult
  package func write(_ text: String, to name: String, permissions: Int = 0o600) throws(TestFailure) -> String {
    let file = path(name)
    guard
      FileManager.default.createFile(
        atPath: file, contents: Data(text.utf8), attributes: [.posixPermissions: permissions])
    else {
      throw TestFailure("cannot write \(file)")
    }
    return file
  }

  /// Creates a folder in this one and returns its path.
  @discardableResult
  package func makeFolder(_ name: String) throws(TestFailure) -> String {
    let folder = path(name)
    do {
      try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    } catch {
      throw TestFailure("cannot create the folder \(folder): \(error)")
    }
    return folder
  }

  /// The text of a file in this folder; empty where it does not exist.
  package func read(_ name: String) -> String {
    guard let data = FileManager.default.contents(atPath: path(name)) else { return "" }
    return String(decoding: data, as: UTF8.self)
  }
}
