import APNsSimulator
import Dispatch
import Foundation

/// One run of the command: makes missing keys and certificates, starts, prints its ports, waits for a signal, stops.
struct SimulatorSession {
  let command: SimulatorCommand
  var options: SimulatorOptions

  func run() throws {
    var options = self.options
    let temporary = FileManager.default.temporaryDirectory.path + "/apns-simulator-\(getpid())"
    let folder = command.folder ?? temporary
    // Without --folder, no file is left.
    defer { try? FileManager.default.removeItem(atPath: temporary) }
    var writtenFolders: [String] = []
    if command.plaintext {
      options.security = .plaintext
    } else if let certificate = command.certificate, let key = command.key {
      options.security = .files(certificate: certificate, key: key, clientAuthority: command.clientAuthority)
    } else {
      options.security = .ownAuthority(folder: folder)
      writtenFolders.append(folder)
    }
    var made: SimulatorCredential?
    let credentialFolder = command.writeCredential ?? folder
    if let path = command.publicKey {
      let pem = Array(try Data(contentsOf: URL(fileURLWithPath: path)))
      options.keys = [try RegisteredKey(team: command.team, key: command.keyID, publicKeyPEM: pem)]
    } else if command.writeCredential != nil || (!command.anyKey && !command.noCredentials && !command.fast) {
      let new = try SimulatorCredential(team: command.team, key: command.keyID)
      options.keys = [try new.registration()]
      made = new
      writtenFolders.append(credentialFolder)
    }
    let locks = try FolderLock.locks(of: writtenFolders)
    defer { for lock in locks { lock.release() } }

    // Who finds its ports open finds its files.
    let credential = try made.map { (made: $0, file: try $0.write(to: credentialFolder)) }
    let stop = DispatchSemaphore(value: 0)
    let signals = SignalWatch { stop.signal() }
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    tellPrograms(ports, credential)
    if !command.quiet { tellPeople(ports, credential, folder) }
    let counters = command.quiet ? nil : CounterLine(simulator)
    stop.wait()
    counters?.end()
    simulator.stop()
    signals.end()
  }

  /// The one line on standard output that scripts wait for.
  private func tellPrograms(_ ports: SimulatorPorts, _ credential: (made: SimulatorCredential, file: String)?) {
    var json = JSONText()
    json.beginObject()
    json.field("host", command.host)
    json.field("port", Int(ports.port))
    json.field("manage_port", Int(ports.managePort ?? 0))
    json.field("control_port", Int(ports.controlPort ?? 0))
    json.field("environment", command.sandbox ? "sandbox" : "production")
    json.field("tls", !command.plaintext)
    json.field("ca_file", ports.authorityFile)
    json.key("credential")
    if let credential {
      json.beginObject()
      json.field("team_id", credential.made.team)
      json.field("key_id", credential.made.key)
      json.field("key_file", credential.file)
      json.endObject()
    } else {
      json.null()
    }
    json.field("pid", Int(getpid()))
    json.endObject()
    json.newLine()
    FileHandle.standardOutput.write(Data(json.bytes))
  }

  private func tellPeople(
    _ ports: SimulatorPorts, _ credential: (made: SimulatorCredential, file: String)?, _ folder: String
  ) {
    var text = "APNs simulator (\(command.sandbox ? "sandbox" : "production")\(command.fast ? ", fast" : ""))\n"
    text += "  notifications, broadcasts  \(command.host):\(ports.port)\n"
    if let port = ports.managePort { text += "  channel management         \(command.host):\(port)\n" }
    if let port = ports.controlPort { text += "  page and control           http://127.0.0.1:\(port)/\n" }
    if let file = ports.authorityFile { text += "  trust this authority       \(file)\n" }
    if let credential {
      text +=
        "  sign with                  \(credential.file) (team \(credential.made.team), key \(credential.made.key))\n"
    }
    if let line = curlLine(ports, credential?.made) { text += "try:\n  \(line)\n" }
    FileHandle.standardError.write(Data(text.utf8))
  }

  private static let exampleToken = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0"

  private func curlLine(_ ports: SimulatorPorts, _ credential: SimulatorCredential?) -> String? {
    let needsToken = !command.noCredentials && !command.fast
    let now = Int64(Date().timeIntervalSince1970) + command.clockOffset
    let token = needsToken ? try? credential?.token(issuedAt: now) : nil
    if needsToken && token == nil { return nil }
    let authorization = token.map { " -H 'authorization: bearer \($0)'" } ?? ""
    let trust = ports.authorityFile.map { " --cacert \($0)" } ?? ""
    let scheme = command.plaintext ? "--http2-prior-knowledge" : "--http2"
    return "curl \(scheme)\(trust)\(authorization) -H 'apns-topic: com.example.app' -H 'apns-push-type: alert'"
      + " -d '{\"aps\":{\"alert\":\"Hello\"}}'"
      + " \(command.plaintext ? "http" : "https")://\(command.host):\(ports.port)/3/device/\(SimulatorSession.exampleToken) -i"
  }
}
