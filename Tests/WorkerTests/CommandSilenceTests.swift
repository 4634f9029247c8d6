import TestSupport
import Testing

/// Commands whose services accept connections and never answer.
@Suite(.timeLimit(.minutes(3))) struct CommandSilenceTests {
  @Test func aCheckEndsAndNamesEachOne() throws {
    let mute = try MuteServer()
    let folder = try TemporaryFolder("silence")
    let apns = try APNsTestFiles()
    let host = "https://127.0.0.1:\(mute.port)"
    let file = try folder.write(
      """
      rabbitmq: {url: "amqp://127.0.0.1:\(mute.port)"}
      redis: {url: "redis://127.0.0.1:\(mute.port)"}
      apns: {production: "\(host)", broadcast_production: "\(host)", manage_production: "\(host)"}
      credentials:
        - {name: main, team_id: SIMTEAM001, key_id: SIMKEY0001, key_file: "\(apns.keyFile)", environments: [production],
           apps: [com.example.app]}
      admin: {port: \(mute.port)}
      """, to: "herald.yaml")
    let result = try ChildProcess.run(
      [try BuiltProgram.path("herald"), "check", "--live", "--config", file],
      environment: ChildProcess.inheritedEnvironment(without: ["HERALD_"]), timeoutMilliseconds: 120_000)
    #expect(result.status == 1, "\(result)")
    let lines = result.output.split(separator: "\n")
    for service in [
      "rabbitmq", "redis", "apns.production", "apns.broadcast_production", "apns.manage_production", "worker",
    ] {
      let line = lines.first { $0.hasPrefix("FAIL \(service): ") }
      let isLate = ["did not answer", "in time"].contains { line?.contains($0) == true }
      #expect(isLate && line?.contains("127.0.0.1:\(mute.port)") == true, "\(service): \(lines)")
    }
  }
}
