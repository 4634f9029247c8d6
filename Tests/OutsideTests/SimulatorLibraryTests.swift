import APNsSimulator
import Foundation
import Testing

/// The simulator as other packages use it: this target sees public names only. The client is `curl`.
@Suite(.timeLimit(.minutes(5)))
struct SimulatorLibraryTests {
  private static let device = "00fc13adff785122b4ad28809a342098"

  /// A folder that is removed with the test.
  private final class Folder {
    let path = FileManager.default.temporaryDirectory.path + "/herald-outside-" + UUID().uuidString

    deinit {
      try? FileManager.default.removeItem(atPath: path)
    }
  }

  /// Sends an alert, or the push of a Live Activity; answers `STATUS BODY`.
  private func send(
    _ ports: SimulatorPorts, _ credential: SimulatorCredential, device: String = device, id: String? = nil,
    activity: String? = nil
  ) throws -> String {
    let token = try credential.token(issuedAt: Int64(Date().timeIntervalSince1970))
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = [
      "curl", "-sS", "--http2", "--max-time", "20", "--cacert", try #require(ports.authorityFile),
      "-H", "authorization: bearer \(token)",
      "-H", "apns-topic: com.example.app" + (activity == nil ? "" : ".push-type.liveactivity"),
      "-H", "apns-push-type: " + (activity == nil ? "alert" : "liveactivity"),
      "-H", "apns-id: \(id ?? UUID().uuidString)", "-d", activity ?? #"{"aps":{"alert":"Hello"}}"#,
      "-w", "%{http_code}",
      "https://localhost:\(ports.port)/3/device/\(device)",
    ]
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let bytes = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    // The body, then the status.
    let text = String(decoding: bytes, as: UTF8.self)
    return "\(text.suffix(3)) \(text.dropLast(3))"
  }

  @Test func sendsFaultsAndReadsTheLedger() throws {
    let folder = Folder()
    let credential = try SimulatorCredential(team: "TEAM000001", key: "KEY0000001")
    #expect(credential.privateKeyPEM.hasPrefix("-----BEGIN PRIVATE KEY-----"))
    var options = SimulatorOptions()
    options.security = .ownAuthority(folder: folder.path)
    options.keys = [try credential.registration()]
    options.controlPort = 0
    let apns = try Simulator(options)
    let ports = try apns.start()
    defer { apns.stop() }
    let authority = try String(contentsOfFile: try #require(ports.authorityFile), encoding: .utf8)
    #expect(ports.authorityPEM == authority)
    #expect(ports.port > 0 && ports.managePort ?? 0 > 0 && ports.controlPort ?? 0 > 0)

    let id = "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11"
    #expect(try send(ports, credential, id: id) == "200 ")
    #expect(try send(ports, try SimulatorCredential(key: "UNKNOWN001")).hasPrefix("403"))

    let fault = try apns.add(fault: "status=503,reason=ServiceUnavailable")
    #expect(try send(ports, credential) == #"503 {"reason":"ServiceUnavailable"}"#)
    apns.remove(fault: fault)
    try apns.add(fault: "status=500,reason=InternalServerError")
    apns.removeAllFaults()
    #expect(try send(ports, credential, id: id) == "200 ")
    apns.setUnregistered(deviceToken: Self.device, since: 1_700_000_000_000)
    #expect(try send(ports, credential) == #"410 {"reason":"Unregistered","timestamp":1700000000000}"#)
    apns.setUnregistered(deviceToken: Self.device, since: nil)

    let ledger = apns.ledger
    #expect(ledger.requests == 5)
    #expect(ledger.accepted == 2)
    #expect(ledger.answers(status: 503, reason: "ServiceUnavailable") == 1)
    #expect(ledger.answers(status: 410, reason: "Unregistered") == 1)
    #expect(ledger.acceptances(of: id) == 2)
    #expect(ledger.duplicateIDs == [id: 2])
    #expect(ledger.streamsOverLimit == 0)
    #expect(ledger.lastNotifications.map(\.entry.apnsID) == [id, id])
    #expect(ledger.lastNotifications.first?.payload == Array(#"{"aps":{"alert":"Hello"}}"#.utf8))
    #expect(ledger.entries.map(\.status) == [200, 403, 503, 200, 410])
    #expect(apns.wait(timeoutMilliseconds: 5000) { $0.connectionsOpen == 0 }, "curl has gone")
  }

  @Test func devicesDisplayLiveActivities() throws {
    let folder = Folder()
    let credential = try SimulatorCredential()
    var options = SimulatorOptions()
    options.security = .ownAuthority(folder: folder.path)
    options.keys = [try credential.registration()]
    options.registerAfterMilliseconds = 10
    options.activityIDAttribute = "ride.id"
    let apns = try Simulator(options)
    let ports = try apns.start()
    defer { apns.stop() }
    apns.setDevice("hwid-1", startToken: Self.device)
    let start =
      #"{"aps":{"timestamp":1795266000,"event":"start","content-state":{"eta":9},"attributes-type":"Ride","#
      + #""attributes":{"ride":{"id":"ride-17"}},"alert":{"title":"A","body":"B"}}}"#
    #expect(try send(ports, credential, activity: start) == "200 ")
    #expect(apns.wait(timeoutMilliseconds: 5000, untilActivities: { $0.first?.updateToken != nil }))
    let activity = try #require(apns.activities.first)
    #expect(activity.id == "ride-17" && activity.device == "hwid-1" && activity.state == .active)
    let update = #"{"aps":{"timestamp":1795266001,"event":"update","content-state":{"eta":5}}}"#
    let token = try #require(activity.updateToken)
    #expect(try send(ports, credential, device: token, activity: update) == "200 ")
    #expect(apns.activities.first?.contentState == #"{"eta":5}"#)
    apns.swipe(activity: "ride-17")
    #expect(apns.wait(timeoutMilliseconds: 5000) { $0.activities.ended == 1 })
    #expect(try send(ports, credential, device: token, activity: update).hasPrefix("410"))
    #expect(apns.ledger.activities.registrations == 2)
    apns.removeAllActivities()
    #expect(apns.activities.isEmpty)
  }

  @Test func registrationsNeedAnAddress() throws {
    #expect(throws: SimulatorError.self) { try RegistrationTarget.webhook("ftp://localhost") }
    #expect(throws: SimulatorError.self) { try RegistrationTarget.queue("http://localhost") }
    _ = try RegistrationTarget.queue("amqp://guest:guest@localhost/", name: "push.registrations")
  }

  @Test func saysWhatItCannotRead() throws {
    let apns = try Simulator()
    #expect(throws: FaultSyntaxError.self) { try apns.add(fault: "status=twelve") }
    #expect(throws: FaultSyntaxError.self) { try apns.act("explode") }
    #expect(throws: SimulatorError.self) {
      try RegisteredKey(team: "TEAM000001", key: "KEY0000001", publicKeyPEM: Array("no key".utf8))
    }
  }

  @Test func stopsAndStartsAgain() throws {
    var options = SimulatorOptions()
    options.checksCredentials = false
    options.isSandbox = true
    let apns = try Simulator(options)
    let first = try apns.start()
    apns.stop()
    let second = try apns.start()
    apns.stop()
    #expect(first.port > 0 && second.port > 0)
    #expect(apns.ledger.requests == 0)
  }
}
