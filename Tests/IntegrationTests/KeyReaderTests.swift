import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

@testable import PushOperations

/// How the gateway reads API keys while Redis is slow.
@Suite(.timeLimit(.minutes(1)))
struct KeyReaderTests {
  /// A key is made while an older reading is on its way: whoever shows the key waits for a reading of its own.
  @Test func aNewKeyIsFoundWhileAnOlderReadingIsAnswered() throws {
    let loop = try EventLoop()
    let node = try ScriptedRedisNode(loop: loop)
    let redis = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: "redis://127.0.0.1:\(node.port)/0"), tls: nil, seed: 1)
    let ring = KeyRing()
    let reader = KeyReader(
      loop: loop, redis: redis, names: GatewayRedisKeys(prefix: ""), file: nil, ring: ring, notice: { _ in })
    func turn(until isDone: () -> Bool) -> Bool {
      for _ in 0..<1_000 {
        loop.poll(maximumWaitMilliseconds: 10)
        redis.turn()
        reader.turn()
        loop.flush()
        if isDone() { return true }
      }
      return false
    }
    #expect(turn { node.count(of: "HSCAN") == 1 })
    var random = SeededRandom(seed: 1)
    let text = APIKeyText(using: &random)
    let key = APIKey(
      id: text.id, hash: SHA256Digest.of(text.text.utf8.span), app: "com.example.app", environment: nil,
      scopes: [.send], rate: nil, createdAt: 1)
    let json = try key.json()
    var isRead: Bool?
    reader.readSoon { isRead = $0 }
    node.answer = { [unowned node] command in
      // Which revision of the keys it reads, and that it has them.
      if command.first == "GET" { return "$-1\r\n" }
      if command.first == "EVALSHA" { return "*0\r\n" }
      guard command.first == "HSCAN" else { return ScriptedRedisNode.greeted(command) }
      return node.count(of: "HSCAN") == 1
        ? "*2\r\n$1\r\n0\r\n*0\r\n"
        : "*2\r\n$1\r\n0\r\n*2\r\n$\(key.id.utf8.count)\r\n\(key.id)\r\n$\(json.utf8.count)\r\n\(json)\r\n"
    }
    node.release()
    #expect(turn { isRead != nil })
    #expect(isRead == true)
    guard case .found(key) = ring.find(text.text, now: 1) else {
      Issue.record("the key is not found")
      return
    }
  }
}
