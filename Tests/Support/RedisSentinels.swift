/// A primary with a replica, and one Sentinel that watches them, all private.
package final class RedisSentinels: Sendable {
  package let primary: RedisServer
  package let replica: RedisServer
  package let port: UInt16
  private let folder: TemporaryFolder
  private let process: ChildProcess

  /// `redis-sentinel://…/main`.
  package var url: String { "redis-sentinel://127.0.0.1:\(port)/main" }

  /// Starts them, and returns once the Sentinel knows the replica.
  package init() throws(TestFailure) {
    primary = try RedisServer(configuration: ["repl-diskless-sync-delay 0"])
    replica = try RedisServer(configuration: ["replicaof 127.0.0.1 \(primary.port)"])
    port = try LoopbackPort.free()
    folder = try TemporaryFolder("sentinel")
    let file = try folder.write(
      """
      bind 127.0.0.1
      port \(port)
      dir \(folder.path)
      sentinel monitor main 127.0.0.1 \(primary.port) 1
      sentinel down-after-milliseconds main 500
      sentinel failover-timeout main 3000

      """, to: "sentinel.conf")
    guard let program = ChildProcess.find("redis-server") else { throw TestFailure("redis-server is not installed") }
    process = try ChildProcess(
      [program, file, "--sentinel"], output: folder.path("log"), errors: folder.path("log"))
    let isReady = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 100) { () -> Bool? in
      guard let redis = ChildProcess.find("redis-cli"),
        let answer = try? ChildProcess.run([redis, "-p", String(port), "SENTINEL", "REPLICAS", "main"])
      else { return nil }
      return answer.output.contains("\(replica.port)") && answer.output.contains("master-link-status\nok") ? true : nil
    }
    guard isReady == true else {
      throw TestFailure("the Sentinel knows no replica: \(folder.read("log").suffix(1000))")
    }
  }

  package func stop() {
    process.kill()
    primary.kill()
    replica.kill()
  }
}
