import Foundation
import TestSupport
import Testing

/// `herald tokens`: shows, forgets and imports marks; and how a worker uses them.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct TokensCommandTests {
  private struct Row: Decodable {
    let token: String
    let topic: String
    let dead: Bool
    let unregisteredAt: Int64?
    let secondsLeft: Int64?

    private enum CodingKeys: String, CodingKey {
      case token, topic, dead
      case unregisteredAt = "unregistered_at"
      case secondsLeft = "seconds_left"
    }
  }

  private func rows(_ result: ChildProcess.Output) throws -> [Row] {
    #expect(result.status == 0, "\(result.errors)")
    return try result.output.split(separator: "\n").map { try JSONDecoder().decode(Row.self, from: Data($0.utf8)) }
  }

  @Test func marksComeAndGo() throws {
    let world = try WorkerWorld("tokens")
    let of = ["--app", "com.example.app", "--environment", "production"]
    let live = "00fc" + String(repeating: "0", count: 60)
    let other = "ABCD" + String(repeating: "0", count: 60)
    let unknown = try rows(world.herald(["tokens", "show", live, "--json"] + of))
    #expect(unknown.count == 1 && unknown[0].token == live && !unknown[0].dead && unknown[0].unregisteredAt == nil)

    let imported = try rows(
      world.herald(
        ["tokens", "import", "-", "--json", "--unregistered-at", "1795000000000"] + of, input: "\(live)\n\(other)\n"))
    #expect(imported.map(\.token) == [live, other.lowercased()] && imported.allSatisfy { $0.dead })
    let shown = try rows(world.herald(["tokens", "show", live, other, "--json"] + of))
    #expect(shown.map(\.unregisteredAt) == [1_795_000_000_000, 1_795_000_000_000])
    #expect(shown.allSatisfy { $0.topic == "com.example.app" && ($0.secondsLeft ?? 0) > 29 * 86_400 })
    // Of two marks the later one counts.
    _ = try rows(world.herald(["tokens", "import", live, "--unregistered-at", "5", "--json"] + of))
    #expect(try rows(world.herald(["tokens", "show", live, "--json"] + of))[0].unregisteredAt == 1_795_000_000_000)
    // Other environments and apps have separate marks.
    let sandbox = try rows(
      world.herald(["tokens", "show", live, "--json", "--app", "com.example.app", "--environment", "sandbox"]))
    #expect(sandbox.map(\.dead) == [false])

    // A worker reports the marked token without sending, unless the token was registered later.
    try world.publish(world.job("marked", number: 0))
    let registered = world.job("registered", number: 0).replacing(
      "\"push_type\"", with: "\"token_registered_at\":1795000000001,\"push_type\"")
    try world.runUntilEmpty()
    #expect(try world.takeOutcomes().map(\.outcome) == ["unregistered"])
    #expect(try world.simulator.counters().requests == 0)
    try world.publish(registered)
    try world.runUntilEmpty()
    #expect(try world.takeOutcomes().map(\.outcome) == ["unregistered", "accepted"])
    #expect(try rows(world.herald(["tokens", "show", live, "--json"] + of)).map(\.dead) == [false], "lifted")

    // The mark of a 410 from APNs is shown, and can be forgotten.
    let dead = "dead" + String(repeating: "0", count: 59) + "7"
    try world.publish(world.job("gone", token: "dead", number: 7))
    try world.runUntilEmpty()
    let table = try world.herald(["tokens", "show", dead] + of)
    #expect(table.output.hasPrefix("TOKEN") && table.output.contains("\(dead)  com.example.app  20"), "\(table.output)")
    let forgotten = try rows(world.herald(["tokens", "forget", dead, other, "--json"] + of))
    #expect(forgotten.map(\.token) == [dead, other.lowercased()])
    let after = try world.herald(["tokens", "show", dead] + of)
    #expect(after.output.contains("not marked"), "\(after.output)")
  }

  @Test func whatIsWrongIsSaid() throws {
    let world = try WorkerWorld("tokens-wrong")
    let of = ["--app", "com.example.app", "--environment", "production"]
    let noToken = try world.herald(["tokens", "show", "xyz"] + of)
    #expect(noToken.status == 64 && noToken.errors.contains("xyz is no device token"), "\(noToken.errors)")
    #expect(try world.herald(["tokens", "show", "00fc0000"]).status == 64, "app and environment are required")
    #expect(try world.herald(["tokens", "forget"] + of).status == 64)
    let port = try LoopbackPort.free()
    let away = world.configuration(redisURL: "redis://127.0.0.1:\(port)")
    let result = try world.herald(["tokens", "show", "00fc0000"] + of, configuration: away)
    #expect(result.status == 1 && result.errors.contains("127.0.0.1:\(port)"), "\(result.errors)")
  }
}
