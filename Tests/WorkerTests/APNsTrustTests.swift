import PushIO
import TestSupport
import Testing

/// Which servers the programs trust as APNs. Each program's system store trusts the CA of the simulator that it calls.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct APNsTrustTests {
  private let simulator: SimulatorProcess
  private let folder: TemporaryFolder

  init() throws {
    simulator = try SimulatorProcess()
    folder = try TemporaryFolder("trust")
    try CertificateFactory(commonName: "Somebody else").writeCertificate(to: folder.path("authority.pem"))
  }

  private func herald(_ arguments: [String], only: Bool, input: String? = nil) throws -> ChildProcess.Output {
    let host = "https://localhost:\(simulator.port)"
    let file = try folder.write(
      """
      rabbitmq: {url: "amqp://127.0.0.1:1"}
      redis: {url: "redis://127.0.0.1:1"}
      apns:
        production: "\(host)"
        broadcast_production: "\(host)"
        manage_production: "https://localhost:\(simulator.managePort)"
        request_timeout_ms: 3000
        ca_file: authority.pem
        ca_only: \(only)
      retry: {delays_s: [1], age_max_s: 2}
      credentials:
        - {name: main, team_id: \(simulator.teamID), key_id: \(simulator.keyID), key_file: "\(simulator.keyFile)",
           environments: [production], apps: [com.example.app]}
      """, to: "herald.yaml")
    return try ChildProcess.run(
      [try BuiltProgram.path("herald")] + arguments + ["--config", file],
      environment: ChildProcess.inheritedEnvironment(without: ["HERALD_", "SSL_CERT_"])
        + ["SSL_CERT_FILE=\(simulator.authorityFile)"],
      input: input, timeoutMilliseconds: 60_000)
  }

  @Test(arguments: [false, true]) func theCheckTrustsWhomTheLanesTrust(only: Bool) throws {
    let lines = try herald(["check"], only: only).output.split(separator: "\n").filter { $0.contains(" apns.") }
    #expect(lines.count == 3, "\(lines)")
    for line in lines {
      #expect(line.hasPrefix(only ? "FAIL " : "ok ") && line.contains("certificate") == only, "\(line)")
    }
  }

  @Test(arguments: [false, true]) func jobsGoToWhomIsTrusted(only: Bool) throws {
    let job = """
      {"version":1,"id":"one","app":"com.example.app","push_type":"alert","to":{"token":"00fc13adff785122"},\
      "payload":{"aps":{"alert":"hello"}}}

      """
    let sent = try herald(["send"], only: only, input: job)
    #expect(sent.output.contains(#""outcome":"accepted""#) == !only, "\(sent)")
    #expect(try simulator.counters().accepted == (only ? 0 : 1))
  }

  @Test(arguments: [false, true]) func channelsAreManagedByWhomIsTrusted(only: Bool) throws {
    let listed = try herald(
      ["channels", "list", "--app", "com.example.app", "--environment", "production"], only: only)
    #expect((listed.status == 0) == !only, "\(listed)")
    #expect(listed.errors.contains("certificate") == only, "\(listed)")
  }

  @Test func nobodyIsNoAuthority() throws {
    let file = try folder.write(
      """
      apns: {ca_only: true}
      credentials:
        - {name: main, team_id: \(simulator.teamID), key_id: \(simulator.keyID), key_file: "\(simulator.keyFile)",
           environments: [production], apps: [com.example.app]}
      """, to: "nobody.yaml")
    let result = try ChildProcess.run([try BuiltProgram.path("herald"), "check", "--offline", "--config", file])
    #expect(result.status == 78 && result.output.contains("ca_file"), "\(result)")
  }
}
