import PushIO
import PushStores
import TestSupport
import Testing

/// Values of many elements, over a real Redis.
@Suite(.timeLimit(.minutes(1)))
struct RedisScanTests {
  /// Redis answers in parts, whatever the value: none of them outgrows the client's limit.
  @Test(arguments: [RedisClient.Collection.hash, .set, .sortedSet])
  func everyPartIsRead(_ kind: RedisClient.Collection) throws {
    let server = try RedisServer()
    defer { server.stop() }
    let registry = try AudienceRegistry(url: server.url, prefix: "scan:")
    let count = 5_000
    let (add, pairs) =
      switch kind {
      case .hash: ("HSET", true)
      case .set: ("SADD", false)
      case .sortedSet: ("ZADD", true)
      }
    for start in stride(from: 0, to: count, by: 500) {
      let words = (start..<start + 500).flatMap { number in
        kind == .sortedSet ? ["\(number)", "m\(number)"] : pairs ? ["m\(number)", "\(number)"] : ["m\(number)"]
      }
      _ = try registry.wait { registry.redis.call([add, "scan:value"] + words, key: "scan:value", then: $0) }
    }
    var (members, parts): (Set<String>, Int) = ([], 0)
    try registry.wait { then in
      registry.redis.scan(kind, "scan:value") { values in
        parts += 1
        members.formUnion(stride(from: 0, to: values.count, by: pairs ? 2 : 1).compactMap { values[$0].text })
      } then: {
        then($0)
      }
    }
    #expect(members.count == count && parts > 1, "\(members.count) in \(parts) parts")
  }
}
