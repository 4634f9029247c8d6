import Foundation

/// Writes the few files that a simulator makes.
package enum SimulatorFile {
  /// Replaces the file. Only the owner may read a secret.
  package static func write(_ bytes: [UInt8], to path: String, isSecret: Bool) throws(SimulatorError) {
    let manager = FileManager.default
    try? manager.removeItem(atPath: path)
    let isWritten = manager.createFile(
      atPath: path, contents: Data(bytes), attributes: [.posixPermissions: isSecret ? 0o600 : 0o644])
    guard isWritten else { throw SimulatorError("cannot write \(path): check that its folder exists and is ours") }
  }

  package static func makeFolder(_ path: String) throws(SimulatorError) {
    do {
      try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    } catch {
      throw SimulatorError("cannot make the folder \(path): \(error)")
    }
  }
}
