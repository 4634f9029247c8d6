/// `apns-simulator` as a process: it can be stopped at any time and restarted on the same ports, with the
/// same certificate.
import Foundation
import Synchronization

package final class SimulatorProcess: Sendable {
  /// The counts of its ledger.
  package struct Counters: Decodable, Sendable {
    package let requests: Int
    package let accepted: Int
    package let acceptedIDs: Int
    package let duplicateIDs: Int
    /// Answers by status and reason.
    package let answers: [String: Int]

    private enum CodingKeys: String, CodingKey {
      case requests, accepted, answers
      case acceptedIDs = "accepted_ids"
      case duplicateIDs = "duplicate_ids"
    }
  }

  private struct Ledger: Decodable {
    let duplicates: [String: Int]
  }

  package let port: UInt16
  package let managePort: UInt16
  package let controlPort: UInt16
  /// The CA file that clients trust.
  package var authorityFile: String { folder.path("ca.pem") }
  /// The signing key that it made, of this team and with this id.
  package var keyFile: String { folder.path("AuthKey.p8") }
  package let teamID = "SIMTEAM001"
  package let keyID = "SIMKEY0001"

  private let folder: TemporaryFolder
  private let process = Mutex<ChildProcess?>(nil)
  private let tokenIntervalSeconds: Int

  /// Starts it, and returns once it listens. `tokenIntervalSeconds`: shortest time between two provider tokens; 0: any.
  package init(tokenIntervalSeconds: Int = 0) throws(TestFailure) {
    self.tokenIntervalSeconds = tokenIntervalSeconds
    port = try LoopbackPort.free()
    managePort = try LoopbackPort.free()
    controlPort = try LoopbackPort.free()
    folder = try TemporaryFolder("simulator")
    try start(["--folder", folder.path, "--write-credential", folder.path])
  }

  deinit {
    stop()
  }

  /// Starts it again after `stop`, with an empty ledger.
  package func start() throws(TestFailure) {
    try start(["--certificate", folder.path("server.pem"), "--key", folder.path("server-key.pem"), "--any-key"])
  }

  private func start(_ arguments: [String]) throws(TestFailure) {
    let program = try BuiltProgram.path("apns-simulator")
    let child = try ChildProcess(
      [
        program, "--port", String(port), "--manage-port", String(managePort), "--control-port", String(controlPort),
        "--token-interval", String(tokenIntervalSeconds), "--token-scope", "key", "--quiet",
      ] + arguments, output: folder.path("output"), errors: folder.path("errors"))
    process.withLock { $0 = child }
    let isReady = ChildProcess.poll(timeoutMilliseconds: 20_000) {
      child.isRunning ? (LoopbackPort.isOpen(self.controlPort) && LoopbackPort.isOpen(self.port) ? true : nil) : false
    }
    guard isReady == true else {
      child.kill()
      throw TestFailure("apns-simulator on port \(port) did not start: \(folder.read("errors"))")
    }
  }

  /// Kills it: its connections break.
  package func stop() {
    let child = process.withLock { process in
      defer { process = nil }
      return process
    }
    child?.kill()
  }

  package func counters() throws -> Counters {
    try JSONDecoder().decode(Counters.self, from: Data(try control("GET", "/counters").utf8))
  }

  /// How often each `apns-id` was accepted, if more than once.
  package func duplicates() throws -> [String: Int] {
    try JSONDecoder().decode(Ledger.self, from: Data(try control("GET", "/ledger").utf8)).duplicates
  }

  /// Sets faults, one a line, as `apns-simulator --help` lists them.
  package func setFaults(_ lines: String) throws(TestFailure) { try control("POST", "/faults", lines) }

  /// Sets its answers for devices, one a line: `TOKEN unregistered [MS]`, `TOKEN ok`.
  package func setDevices(_ lines: String) throws(TestFailure) { try control("POST", "/devices", lines) }

  /// Sets its clock ahead of the machine's.
  package func setClock(secondsAhead: Int) throws(TestFailure) { try control("POST", "/clock", "\(secondsAhead)") }

  package func clearFaults() throws(TestFailure) { try control("DELETE", "/faults") }

  @discardableResult
  private func control(_ method: String, _ path: String, _ body: String = "") throws(TestFailure) -> String {
    guard
      let answer = LoopbackHTTP.request(method, path, port: controlPort, body: body, timeoutMilliseconds: 20_000)
    else { throw TestFailure("the simulator's control port does not answer \(method) \(path)") }
    guard answer.status == 200 else { throw TestFailure("\(method) \(path): \(answer.status) \(answer.body)") }
    return answer.body
  }
}
