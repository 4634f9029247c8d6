import Foundation
import TestSupport
import Testing

/// `herald channels` as a program, and the broadcast of `docs/live-activities.md` as it stands there.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ChannelCommandTests {
  private static let of = ["--app", "com.example.app", "--environment", "production"]

  private struct Row: Decodable {
    let channel: String
    let app: String
    let environment: String
    let storage: String?
    let deleted: Bool
    let requestID: String

    private enum CodingKeys: String, CodingKey {
      case channel, app, environment, storage, deleted
      case requestID = "request_id"
    }
  }

  /// Without Redis: nothing listens on port 1.
  private static let environment =
    ChildProcess.inheritedEnvironment(without: ["HERALD_", "PATH="]) + ["HERALD_REDIS_URL=redis://127.0.0.1:1"]

  private func herald(_ arguments: [String], _ folder: TemporaryFolder) throws -> ChildProcess.Output {
    try ChildProcess.run(
      [try BuiltProgram.path("herald"), "channels"] + arguments + ["--config", folder.path("herald.yaml")],
      environment: ChannelCommandTests.environment, timeoutMilliseconds: 30_000)
  }

  private func configure(_ simulator: SimulatorProcess, _ folder: TemporaryFolder) throws {
    try folder.write(
      """
      apns: {manage_production: "https://localhost:\(simulator.managePort)", ca_file: "\(simulator.authorityFile)"}
      credentials:
        - {name: main, team_id: \(simulator.teamID), key_id: \(simulator.keyID), key_file: "\(simulator.keyFile)",
           environments: [production], apps: [com.example.app]}
      """, to: "herald.yaml")
  }

  private func rows(_ result: ChildProcess.Output) throws -> [Row] {
    #expect(result.status == 0, "\(result.errors)")
    return try result.output.split(separator: "\n").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
  }

  @Test func aChannelsLife() throws {
    let simulator = try SimulatorProcess()
    let folder = try TemporaryFolder("channels")
    try configure(simulator, folder)
    let request = "2288cf3f-70d8-46a6-97d7-dd5d00867127"
    let made = try rows(
      herald(["create", "--storage", "most-recent", "--json", "--request-id", request] + Self.of, folder))
    #expect(made.map(\.storage) == ["most-recent"] && made.map(\.requestID) == [request])
    #expect(made.map(\.app) == ["com.example.app"] && made.map(\.environment) == ["production"])
    let id = try #require(made.first?.channel)
    let table = try herald(["create"] + Self.of, folder)
    #expect(table.output.hasPrefix("CHANNEL ") && table.output.contains("==  none\n"), "\(table.output)")
    #expect(try rows(herald(["read", "--json", "--channel", id] + Self.of, folder)).map(\.storage) == ["most-recent"])
    #expect(try rows(herald(["list", "--json"] + Self.of, folder)).count == 2)
    let list = try herald(["list"] + Self.of, folder)
    let notes = list.errors.split(separator: "\n")
    #expect(list.output.split(separator: "\n").count == 3)
    #expect(notes.count == 2 && notes.last == "herald: 2 of 10000 channels")
    #expect(notes.first?.hasPrefix("herald: the channels' names are left out: ") == true, "\(list.errors)")
    let deleted = try rows(herald(["delete", "--json", "--channel", id] + Self.of, folder))
    #expect(deleted.map(\.deleted) == [true] && deleted.map(\.channel) == [id])
    let again = try herald(["delete", "--channel", id] + Self.of, folder)
    #expect(again.status == 1 && again.output.isEmpty)
    #expect(again.errors.contains("answered 404 ChannelNotRegistered") && again.errors.contains("herald channels list"))
  }

  @Test func whatIsWrongIsSaid() throws {
    let simulator = try SimulatorProcess()
    let folder = try TemporaryFolder("channels")
    try configure(simulator, folder)
    let app = try herald(["list", "--app", "com.example.two", "--environment", "production"], folder)
    #expect(
      app.status == 78 && app.errors.contains("no credential serves \"com.example.two\": add it to a credential's apps")
    )
    let sandbox = try herald(["list", "--app", "com.example.app", "--environment", "sandbox"], folder)
    #expect(sandbox.status == 78 && sandbox.errors.contains("in sandbox"), "\(sandbox.errors)")
    let named = try herald(["list", "--credential", "two"] + Self.of, folder)
    #expect(named.status == 78 && named.errors.contains("no credential \"two\""), "\(named.errors)")
    for wrong in [
      ["read"] + Self.of, ["read", "--channel", "#"] + Self.of, ["create", "--storage", "all"] + Self.of,
      ["list", "--app", "a b", "--environment", "production"], ["list", "--app", "com.example.app"],
      ["list", "--request-id", "1"] + Self.of,
    ] {
      #expect(try herald(wrong, folder).status == 64, "\(wrong)")
    }
    simulator.stop()
    let away = try herald(["create"] + Self.of, folder)
    #expect(away.status == 1 && away.errors.contains("cannot be reached"), "\(away.errors)")
    #expect(away.errors.contains("check apns.manage_production"))
    try folder.write(
      "credentials:\n  - {name: main, team_id: SIMTEAM001, key_id: SIMKEY0001, key_file: none.p8, apps: [a]}",
      to: "herald.yaml")
    let key = try herald(["list"] + Self.of, folder)
    #expect(key.status == 78 && key.errors.contains("none.p8"), "\(key.errors)")
  }

  /// The code blocks of the walk-through: commands and their output.
  @Test func theWalkThroughIsTrue() throws {
    var walk = try WalkThrough("live-activities.md", ["Set up", "A broadcast"])
    for port in ["8443", "8444", "2196"] { try walk.replace(port, with: String(try LoopbackPort.free())) }
    let folder = try TemporaryFolder("walk")
    let result = try walk.run(
      in: folder, environment: ChannelCommandTests.environment, timeoutMilliseconds: 60_000)
    #expect(result.status == 0, "\(result.errors)")
    #expect(result.output == walk.expected)
    #expect(walk.expected.contains("ChannelNotRegistered"), "the page says what its commands print")
  }
}
