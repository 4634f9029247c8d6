import APNsSimulator
import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushOperations
import PushSettings
import TestSupport
import Testing

/// The jobs in `config/examples`, one file for each kind of push, as `herald send` sends them: with a signing key and a
/// `.p12` certificate side by side, to a strict simulator over TLS, which accepts them all.
@Suite(.timeLimit(.minutes(2))) struct JobExamplesTests {
  private static let folder = URL(filePath: #filePath).deletingLastPathComponent()
    .appending(path: "../../config/examples")
  private static let mdmTopic = "com.apple.mgmt.External.0a1b"

  private struct Outcome: Decodable {
    var jobID: String
    var outcome: String
    var status: Int?
    var reason: String?
    var detail: String?
    var pushType: String

    enum CodingKeys: String, CodingKey {
      case jobID = "job_id"
      case pushType = "push_type"
      case outcome, status, reason, detail
    }
  }

  /// Starts a simulator that knows a key and the certificate's CA.
  private func start(_ files: TemporaryFolder) throws -> (Simulator, SimulatorPorts, SimulatorCredential) {
    let authority = try CertificateFactory(commonName: "Herald test authority")
    try authority.writeCertificate(to: files.path("ca.pem"))
    try authority.issue(.init(commonName: "localhost", dnsNames: ["localhost"], ipAddresses: ["127.0.0.1"]))
      .write(certificateFile: files.path("server.pem"), keyFile: files.path("server.key"))
    var request = CertificateFactory.Request(commonName: "Apple Push Services: MDM")
    request.userID = Self.mdmTopic
    try authority.issue(request).writePKCS12(file: files.path("mdm.p12"), passphrase: "correct horse")
    try files.write("correct horse\n", to: "phrase")
    let credential = try SimulatorCredential()
    try files.write(String(decoding: credential.signer.privateKeyPEM(), as: UTF8.self), to: "AuthKey.p8")
    var options = SimulatorOptions()
    options.security = .files(
      certificate: files.path("server.pem"), key: files.path("server.key"), clientAuthority: files.path("ca.pem"))
    options.keys = [try credential.registration()]
    options.tokenUpdateIntervalSeconds = 0
    let simulator = try Simulator(options)
    return (simulator, try simulator.start(), credential)
  }

  private func configuration(
    _ files: TemporaryFolder, _ ports: SimulatorPorts, _ credential: SimulatorCredential
  ) throws -> Configuration {
    let file = try files.write(
      """
      apns:
        production: "https://localhost:\(ports.port)"
        broadcast_production: "https://localhost:\(ports.port)"
        ca_file: ca.pem
      credentials:
        - {name: main, team_id: \(credential.team), key_id: \(credential.key), key_file: AuthKey.p8,
           environments: [production], apps: [com.example.app]}
        - {name: mdm, p12_file: mdm.p12, passphrase_file: phrase, environments: [production], apps: [\(Self.mdmTopic)]}
      """, to: "herald.yaml")
    return try ConfigurationLoader.load(file: file)
  }

  /// Creates a channel of the app through channel management.
  private func makeChannel(_ files: TemporaryFolder, _ ports: SimulatorPorts, _ credential: SimulatorCredential) throws
    -> String
  {
    let tls = try TLSContext.client(alpn: ["h2"], caFile: files.path("ca.pem"))
    let client = try SimulatorClient(try #require(ports.managePort), tls: tls)
    let token = try credential.token(issuedAt: client.loop.now.unixSeconds)
    let answer = try #require(client.ask(SimulatorRequests.channel(["authorization": "bearer \(token)"])))
    #expect(answer.status == 201)
    return answer.channel
  }

  @Test func everyKindOfPushIsAccepted() throws {
    let files = try TemporaryFolder("examples")
    let (simulator, ports, credential) = try start(files)
    defer { simulator.stop() }
    let channel = try makeChannel(files, ports, credential)
    let names = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path()).sorted()
    #expect(names == (PushType.named.map(\.name) + ["broadcast"]).map { "\($0).jsonl" }.sorted())
    var jobs = ""
    for name in names {
      jobs += try String(contentsOf: Self.folder.appending(path: name), encoding: .utf8)
    }
    jobs.replace("dHN0LXNyY2gtY2hubA==", with: channel)
    let input = try files.write(jobs, to: "jobs.jsonl")
    let output = try files.write("", to: "outcomes.jsonl")
    var logger = Logger(label: "test")
    logger.logLevel = .error
    let sender = try DirectSender(try configuration(files, ports, credential), logger: logger)
    let reader = try #require(FileHandle(forReadingAtPath: input))
    let writer = try #require(FileHandle(forWritingAtPath: output))
    _ = try sender.run(input: reader, output: writer, control: LaneControl(name: "send"))
    let outcomes = try files.read("outcomes.jsonl").split(separator: "\n").map {
      try JSONDecoder().decode(Outcome.self, from: Data($0.utf8))
    }
    let others = outcomes.filter { $0.outcome != "accepted" || $0.status != 200 }
    #expect(others.isEmpty, "\(others)")
    #expect(Set(outcomes.map(\.pushType)) == Set(PushType.named.map(\.name)))
    let ids = try jobs.split(separator: "\n").map { line in
      try #require((JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any])?["id"] as? String)
    }
    #expect(Set(outcomes.map(\.jobID)) == Set(ids))
    #expect(outcomes.count == ids.count + 2, "one job has three targets")
  }
}
