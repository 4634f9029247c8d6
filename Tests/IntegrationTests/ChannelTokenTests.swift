import TestSupport
import Testing

/// `herald channels` beside a worker: both use the one provider token that the fleet shares through Redis.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ChannelTokenTests {
  private static let of = ["--app", "com.example.app", "--environment", "production"]

  /// The simulator refuses a second token of the key within 20 minutes, on whichever connection it comes.
  @Test func commandsAndWorkersShareATokenThroughRedis() throws {
    var options = WorkerWorld.Options()
    options.tokenIntervalSeconds = 1200
    let world = try WorkerWorld("channel-token", options: options)
    for _ in 0..<2 {
      let created = try world.herald(["channels", "create"] + Self.of)
      #expect(created.status == 0, "\(created.errors)")
    }
    try world.publish(world.job("beside", number: 1))
    try world.runUntilEmpty()
    #expect(try world.takeOutcomes().map(\.outcome) == ["accepted"])
    let listed = try world.herald(["channels", "list"] + Self.of)
    #expect(listed.status == 0 && listed.errors.contains("2 of 10000 channels"), "\(listed.errors)")
    #expect(try world.simulator.counters().answers["429 TooManyProviderTokenUpdates"] == nil)
  }

  /// Without it, each makes its own. Here APNs refuses the second one, and the log says what to do.
  @Test func withoutRedisEachMakesItsOwn() throws {
    var options = WorkerWorld.Options()
    options.tokenIntervalSeconds = 1200
    let world = try WorkerWorld("channel-alone", options: options)
    let away = world.configuration(redisURL: "redis://127.0.0.1:\(try LoopbackPort.free())")
    let first = try world.herald(["channels", "list"] + Self.of, configuration: away)
    #expect(first.status == 0 && first.errors.contains("names are left out: "), "\(first.errors)")
    // A token's time is in whole seconds: within the same one, the second token is the first.
    let isRefused = ChildProcess.poll(timeoutMilliseconds: 20_000) { () -> Bool? in
      guard let next = try? world.herald(["channels", "list"] + Self.of, configuration: away) else { return false }
      return next.errors.contains("share the tokens through Redis") ? true : nil
    }
    #expect(isRefused == true)
  }
}
