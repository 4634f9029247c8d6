import Foundation
import FoundationNetworking
import PushCredentials
import PushIO

#if canImport(FoundationNetworking)
#endif

/// A fast simulator as a separate process, so that its CPU does not count as the worker's.
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
    var controlPort: UInt16
    var caFile: String
    var credential: Credential

    private enum CodingKeys: String, CodingKey {
      case port, credential
      case controlPort = "control_port"
      case caFile = "ca_file"
    }
  }

  /// The simulator's own counts.
  struct Counters: Decodable {
    var requests: Int
    /// The number of different `apns-id`s that it accepted.
    var acceptedIDs: Int

    private enum CodingKeys: String, CodingKey {
      case requests
      case acceptedIDs = "accepted_ids"
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

  func counters() async throws -> Counters {
    guard let address = URL(string: "http://127.0.0.1:\(ready.controlPort)/counters") else {
      throw Failure(description: "apns-simulator has no control port")
    }
    let (data, _) = try await URLSession.shared.data(from: address)
    return try JSONDecoder().decode(Counters.self, from: data)
  }

  func stop() {
    process.terminate()
    process.waitUntilExit()
    try? FileManager.default.removeItem(at: folder)
  }
}
