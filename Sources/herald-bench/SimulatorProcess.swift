import Foundation
import PushIO

/// A fast simulator as a process of its own, so that its CPU is not the worker's.
final class SimulatorProcess {
  struct Ready: Decodable {
    struct Credential: Decodable {
      var teamID: String
      var keyID: String
      var keyFile: String

      private enum CodingKeys: String, CodingKey {
        case teamID = "team_id"
        case keyID = "key_id"
        case keyFile = "key_file"
      }
    }

    var port: UInt16
    var caFile: String
    var credential: Credential

    private enum CodingKeys: String, CodingKey {
      case port, credential
      case caFile = "ca_file"
    }
  }

  let ready: Ready
  private let process = Process()
  private let folder: URL

  struct Failure: Error, CustomStringConvertible {
    var description: String
  }

  init() throws {
    folder = FileManager.default.temporaryDirectory.appending(path: "herald-bench-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    let own = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
    let output = Pipe()
    process.executableURL = own.appending(path: "apns-simulator")
    process.arguments = ["--port", "0", "--fast", "--write-credential", folder.path()]
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    var line = Data()
    while let chunk = try output.fileHandleForReading.read(upToCount: 1), !chunk.isEmpty, chunk[0] != 0x0A {
      line += chunk
    }
    guard let ready = try? JSONDecoder().decode(Ready.self, from: line) else {
      throw Failure(description: "apns-simulator did not start: \(String(decoding: line, as: UTF8.self))")
    }
    self.ready = ready
  }

  var processIdentifier: Int32 { process.processIdentifier }

  func stop() {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }
}
