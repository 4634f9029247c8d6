import PushIO
import Testing

/// URLs: their meaning, their errors, and that no message repeats a password.
struct RedisConfigurationTests {
  @Test func everyForm() throws {
    var expected = RedisConfiguration(address: .network(host: "127.0.0.1", port: 6379))
    #expect(try RedisConfiguration(url: "redis://127.0.0.1") == expected)
    #expect(try RedisConfiguration(url: "redis://127.0.0.1:6379/") == expected)
    expected.database = 3
    #expect(try RedisConfiguration(url: "REDIS://127.0.0.1:6379/3") == expected)
    #expect(try RedisConfiguration(url: "redis://127.0.0.1?db=3") == expected)
    expected.password = "se@cr:et/"
    #expect(try RedisConfiguration(url: "redis://:se%40cr%3Aet%2f@127.0.0.1/3") == expected)
    expected.user = "worker"
    #expect(try RedisConfiguration(url: "redis://worker:se%40cr:et%2F@127.0.0.1/3") == expected)
    expected.usesTLS = true
    expected.address = .network(host: "::1", port: 7000)
    #expect(try RedisConfiguration(url: "rediss://worker:se%40cr:et%2F@[::1]:7000/3") == expected)
    var unix = RedisConfiguration(address: .unix(path: "/run/re dis.sock"))
    #expect(try RedisConfiguration(url: "unix:///run/re%20dis.sock") == unix)
    unix.password = "p"
    unix.database = 2
    #expect(try RedisConfiguration(url: "unix://:p@/run/re%20dis.sock?db=2") == unix)
  }

  @Test(arguments: [
    "", "127.0.0.1:6379", "http://host", "redis://", "redis://:hunter2@", "redis://:hunter2@host:0",
    "redis://:hunter2@host:99999", "redis://:hunter2@host:port", "redis://user:hunter2/@host",
    "redis://:hunter2@host/x", "redis://host#hunter2", "redis-cluster://u:x@h1:1,u2:#@hunter2#9",
    "redis://:hunter2@host/-1", "redis://:hunter2@host?timeout=hunter2", "redis://:hunter2%@host",
    "redis://:hunter2%zz@host", "redis://:hunter2%ff@host", "redis://:hunter2%00@host", "redis://:hunter2@[::1",
    "redis://:hunter2@[::1]x", "redis-sentinel://a/main?sentinel_password=hunter2%",
    "redis://a?sentinel_password=hunter2", "redis://hunter2@host", "unix://:hunter2@run/socket", "unix://",
    "redis-cluster://:hunter2@" + Array(repeating: "a", count: 257).joined(separator: ","),
  ])
  func whatIsWrongIsSaidWithoutThePassword(url: String) {
    #expect {
      _ = try RedisConfiguration(url: url)
    } throws: { error in
      let text = String(describing: error)
      return text.hasPrefix("Redis URL: ") && !text.contains("hunter2")
    }
  }

  @Test func clustersAndSentinels() throws {
    let cluster = try RedisConfiguration(url: "redis-cluster://worker:p%40ss@a:1,b,[::1]:3")
    #expect(cluster.topology == .cluster && !cluster.usesTLS && cluster.user == "worker" && cluster.password == "p@ss")
    #expect(
      cluster.addresses == [
        .network(host: "a", port: 1), .network(host: "b", port: 6379), .network(host: "::1", port: 3),
      ])
    #expect(cluster.fullDescription == "cluster a:1, b:6379, [::1]:3")
    #expect(try RedisConfiguration(url: "rediss-cluster://a/0").usesTLS)
    let sentinel = try RedisConfiguration(url: "redis-sentinel://:p@a,b:5/my%20main/2")
    #expect(sentinel.topology == .sentinel(primary: "my main") && sentinel.database == 2 && sentinel.password == "p")
    #expect(sentinel.addresses == [.network(host: "a", port: 26_379), .network(host: "b", port: 5)])
    #expect(sentinel.sentinelUser == nil && sentinel.sentinelPassword == nil && !sentinel.usesTLSForSentinels)
    let closed = try RedisConfiguration(url: "rediss-sentinel://a/main?sentinel_user=me&sentinel_password=p%26s")
    #expect(closed.sentinelUser == "me" && closed.sentinelPassword == "p&s" && closed.usesTLSForSentinels)
    let mixed = try RedisConfiguration(url: "rediss-sentinel://a/main?sentinel_tls=no")
    #expect(mixed.usesTLS && !mixed.usesTLSForSentinels)
    for wrong in [
      "redis-sentinel://a/main?sentinel_user=me", "redis-sentinel://a/main?sentinel_tls=perhaps",
      "redis://a?sentinel_password=p", "redis-cluster://a?db=1", "redis-cluster://a/1", "redis-cluster://a,,b",
      "redis-cluster://", "redis-sentinel://a", "redis-sentinel://a/",
      "redis-sentinel://a/main/x", "redis-sentinel://a/main/0/1",
    ] { #expect(throws: RedisError.self, "\(wrong)") { try RedisConfiguration(url: wrong) } }
  }
}
