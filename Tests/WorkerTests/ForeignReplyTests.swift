import PushCore
import PushIO
import TestSupport
import Testing

@testable import PushLane
@testable import PushOperations
@testable import PushStores

/// Replies that Redis' scripts never give: another program writes to our keys, or it is no Redis. They are failures, and nothing traps.
@Suite(.timeLimit(.minutes(1))) struct ForeignReplyTests {
  private static let scope = AppScope(app: "com.example.app", environment: .production)
  private static let huge = ":9223372036854775807\r\n"

  /// A client of a server that gives the same reply to each of some commands.
  private final class World {
    let loop: EventLoop
    let node: ScriptedRedisNode
    let redis: RedisClient

    /// - Parameter answer: nil: as a server greets.
    init(_ answer: @escaping ([String]) -> String?) throws {
      loop = try EventLoop()
      node = try ScriptedRedisNode(loop: loop)
      node.answer = { answer($0) ?? ScriptedRedisNode.greeted($0) }
      redis = RedisClient(
        loop: loop, configuration: try RedisConfiguration(url: "redis://127.0.0.1:\(node.port)"), tls: nil, seed: 1)
    }

    func wait<Value>(_ turn: () -> Void = {}, _ start: (@escaping (Value) -> Void) -> Void) -> Value? {
      var value: Value?
      start { value = $0 }
      for _ in 0..<2_000 where value == nil {
        loop.poll(maximumWaitMilliseconds: 5)
        redis.turn()
        turn()
        loop.flush()
      }
      return value
    }
  }

  private static func bulk(_ text: String) -> String { "$\(text.utf8.count)\r\n\(text)\r\n" }

  /// A forget's time is negated: the smallest number has no counterpart.
  @Test(arguments: ["-9223372036854775808", "-9223372036854775807", "9223372036854775807", "-9007199254740993"])
  func aCommitsReplyThatIsNoTime(reply: String) throws {
    let scope = try #require(Self.scope)
    let world = try World { command in
      switch command.first {
      case "SADD": ":1\r\n"
      case "EVALSHA" where command[1] == DeviceScript.find.digest: "*1\r\n*3\r\n$-1\r\n$-1\r\n:5\r\n"
      case "EVALSHA" where command[1] == DeviceScript.commit.digest: "*1\r\n:\(reply)\r\n"
      default: nil
      }
    }
    let registry = DeviceRegistry(loop: world.loop, redis: world.redis, prefix: "t:", seed: 1)
    let turn = { registry.turn() }
    let answer = world.wait(turn) { then in
      registry.register(DeviceRegistration(device: "d"), at: 1_796_000_000_000, in: scope) { then($0) }
    }
    guard case .failure(.busy) = answer else {
      Issue.record("\(String(describing: answer))")
      return
    }
    #expect(world.node.count(of: "EVALSHA") > 90, "it is decided again, each time")
  }

  @Test func countsOfMembersThatNoHashHas() throws {
    let (scope, id) = (try #require(Self.scope), try #require(ActivityID("a")))
    let world = try World { command in
      switch command.first {
      case "SSCAN": "*2\r\n\(Self.bulk("0"))*2\r\n\(Self.bulk("0"))\(Self.bulk("1"))"
      case "HLEN": Self.huge
      default: nil
      }
    }
    let activities = ActivityRegistry(loop: world.loop, redis: world.redis, prefix: "t:")
    let counts = world.wait { then in activities.memberCounts(of: id, in: scope) { then($0) } }
    guard case .failure(.unreadable) = counts else {
      Issue.record("\(String(describing: counts))")
      return
    }
  }

  private final class NoManager: ChannelManaging {
    func perform(_ request: ChannelRequest, then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void) {}
  }

  private func channels(_ world: World) -> ChannelRegistry {
    ChannelRegistry(
      loop: world.loop, redis: world.redis, manager: NoManager(), prefix: "t:",
      timing: ChannelEnsureState.Timing(requestMilliseconds: 100), seed: 1
    ) { _, _ in }
  }

  @Test func moreChannelsThanWereTold() throws {
    let scope = try #require(Self.scope)
    let world = try World { $0.first == "EVAL" ? Self.huge : nil }
    let ids = try (0..<600).map {
      try #require(ChannelID(text: Base64.text(of: Array("channel \(1000 + $0)".utf8), .standard)))
    }
    let registry = channels(world)
    let learned = world.wait { then in registry.learn(ids, in: scope, isForced: true) { then($0) } }
    guard case .failure(.redis) = learned else {
      Issue.record("\(String(describing: learned))")
      return
    }
  }

  /// The rest of a wait is computed with Redis' time.
  @Test(arguments: ["-9223372036854775808", "9223372036854775807", "-9221576036854774806", "-1"])
  func aChannelsIntentAtAnImpossibleTime(time: String) throws {
    let (scope, name) = (try #require(Self.scope), try #require(ChannelName("news")))
    let intent = "1\t1796000000000\towner"
    let world = try World { command in
      command.first == "EVAL" ? "*4\r\n:2\r\n\(Self.bulk(intent))\(Self.bulk(time))\(Self.bulk(""))" : nil
    }
    let registry = channels(world)
    let settled = world.wait { then in registry.settle(name, in: scope, .ensure(.none)) { then($0) } }
    guard case .failure(.redis) = settled else {
      Issue.record("\(String(describing: settled))")
      return
    }
  }

  /// Each page would be two words of a command.
  @Test(arguments: ["0:4294967295", "0:65537", "5:4", "-1:1"]) func moreFixedPagesThanAStepHas(range: String) throws {
    let (scope, ends) = (try #require(Self.scope), range.split(separator: ":").map(String.init))
    let words = ["publish", ends[0], ends[1], "", "1", "0"]
    let world = try World { $0.first == "EVALSHA" ? "*6\r\n" + words.map(Self.bulk).joined() : nil }
    let store = ExpansionStore(world.redis, prefix: "t:") { 1 }
    let opened = world.wait { then in
      store.open(
        AudienceID("j", in: scope), ExpansionCursor(), openMaximum: 1, isDryRun: false, metadata: MessageMetadata(),
        body: [1]
      ) { then($0) }
    }
    guard case .failure = opened else {
      Issue.record("\(String(describing: opened))")
      return
    }
  }

  /// What gateways tell of themselves: `herald keys revoke` reads it.
  @Test func aGatewayAtAnImpossibleTimeIsNone() throws {
    func read(_ seconds: String, _ value: String, _ microseconds: String = "0") -> [GatewayHeartbeat]? {
      GatewayHeartbeat.read(
        .array([.bulk(Array(seconds.utf8)), .bulk(Array(microseconds.utf8))]), ["g": Array(value.utf8)])?.all
    }
    let now = "1796000000"
    #expect(read(now, "\(now)000 3 redis")?.count == 1)
    #expect(read(now, "\(now)000 \(Int64.min) file")?.first?.revision == .min)
    for time in ["9223372036854775807", "9223372036854775507", "-1", "9007199254740993"] {
      #expect(read(now, "\(time) 3 redis")?.isEmpty == true, "\(time)")
      #expect(read(time, "\(now)000 3 redis") == nil, "\(time)")
      #expect(read(now, "\(now)000 3 redis", time) == nil, "\(time)")
    }
  }

  /// The time of a dead token is a negative number.
  @Test func deadTokensHaveATime() throws {
    let connection = RedisConnection(
      loop: try EventLoop(), configuration: try RedisConfiguration(url: "redis://127.0.0.1:1"), tls: nil, seed: 1)
    func since(_ number: Int64) -> Int64? {
      guard
        case .admission(.dead(let since)) = RedisAdmissionReply(
          RedisValue(kind: .integer, integer: number), on: connection)
      else { return nil }
      return since
    }
    #expect(since(-5) == 5)
    #expect(since(.min) == 0 && since(.min + 1) == Limits.unixMillisecondsMaximum)
  }
}
