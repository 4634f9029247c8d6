import PushCore
import PushIO
import TestSupport
import Testing

@testable import PushStores

/// The client of work off the job path, against scripted nodes.
@Suite(.timeLimit(.minutes(1))) struct RedisClientTests {
  /// A cluster that elects a primary, or moves a slot, serves it a moment later: a command waits, longer and longer, and is not given up.
  @Test func whatAClusterCannotServeNowIsAskedAgainAfterAPause() throws {
    let loop = try EventLoop()
    let cluster = try ScriptedRedisCluster(loop: loop)
    let redis = RedisClient(loop: loop, configuration: try RedisConfiguration(url: cluster.url), tls: nil, seed: 1)
    defer {
      redis.close()
      cluster.close()
    }
    func turn(while isNeeded: () -> Bool) {
      for _ in 0..<4_000 where isNeeded() {
        loop.poll(maximumWaitMilliseconds: 5)
        redis.turn()
        loop.flush()
      }
    }
    cluster.isDown = true
    var answer: Result<RedisReply, RedisClient.Failure>?
    redis.call(["APPEND", "k", "x"], key: "k") { answer = $0 }
    func tries() -> Int { cluster.nodes.reduce(0) { $0 + $1.count(of: "APPEND") } }
    turn { tries() < 4 && answer == nil }
    #expect(answer == nil)
    let fourth = loop.now.monotonic
    turn { tries() < 5 && answer == nil }
    #expect(loop.now.monotonic.milliseconds(since: fourth) >= 100, "after 20, 40, 80 and 160 ms")
    cluster.isDown = false
    turn { answer == nil }
    #expect(answer == .success(.integer(1000)) && tries() == 6)
  }
}
