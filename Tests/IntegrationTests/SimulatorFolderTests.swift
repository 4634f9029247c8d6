import Glibc
import TestSupport
import Testing

/// Who has the files of a folder: the simulator that made them, while it runs.
@Suite(.timeLimit(.minutes(2)))
struct SimulatorFolderTests {
  private static let files = ["ca.pem", "server.pem", "server-key.pem", "AuthKey.p8", "credential.json"]

  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder("simulator-folder")
  }

  private func arguments(_ ports: [UInt16], _ folders: [String]) throws -> [String] {
    let program = try BuiltProgram.path("apns-simulator")
    return [
      program, "--port", "\(ports[0])", "--manage-port", "\(ports[1])", "--control-port", "\(ports[2])", "--quiet",
    ] + folders
  }

  private func freePorts() throws -> [UInt16] { try (0..<3).map { _ in try LoopbackPort.free() } }

  private var contents: [String] { Self.files.map { folder.read("sim/" + $0) } }

  @Test func aSecondSimulatorLeavesTheFilesOfARunningOneAlone() throws {
    let sim = folder.path("sim")
    let own = ["--folder", sim, "--write-credential", sim]
    let ports = try freePorts()
    let first = try ChildProcess(try arguments(ports, own), output: folder.path("ready"))
    let isReady = ChildProcess.poll(timeoutMilliseconds: 20_000) { folder.read("ready").isEmpty ? nil : true }
    #expect(isReady == true)
    let before = contents
    #expect(!before.contains(""))

    let again = try ChildProcess.run(try arguments(ports, own))
    #expect(
      again.status == 1 && again.errors.contains("another apns-simulator uses the folder \(sim)"), "\(again.errors)")
    #expect(contents == before)
    // The folder can be written in two ways, and by another path.
    for folders in [["--folder", sim + "/."], ["--write-credential", sim, "--plaintext"]] {
      let other = try ChildProcess.run(try arguments(freePorts(), folders))
      #expect(other.status == 1 && other.errors.contains("uses the folder"), "\(other.errors)")
    }
    #expect(contents == before)
    // A port of it, but not its folder.
    for taken in 0..<3 {
      var others = try freePorts()
      others[taken] = ports[taken]
      let elsewhere = folder.path("other-\(taken)")
      let other = try ChildProcess.run(
        try arguments(others, ["--folder", elsewhere, "--write-credential", elsewhere]))
      #expect(other.status == 1 && other.errors.contains(":\(ports[taken]) "), "\(other.errors)")
      #expect(other.errors.contains("Address already in use"), "\(other.errors)")
    }
    #expect(contents == before)

    first.kill()
    let second = try ChildProcess(try arguments(ports, own), output: folder.path("second"))
    let isSecondReady = ChildProcess.poll(timeoutMilliseconds: 20_000) { folder.read("second").isEmpty ? nil : true }
    #expect(isSecondReady == true)
    #expect(contents != before)
    second.kill()
  }
}
