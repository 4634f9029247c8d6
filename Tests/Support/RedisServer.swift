/// A private Redis server on a free loopback port, with a data folder of its own.
import Glibc
import Synchronization

package final class RedisServer: Sendable {
  /// The server for tests that need no private one: started at first use, ended with this process. Keys of
  /// different tests must differ: use a prefix of your own.
  private static let sharedResult = Result { () throws(TestFailure) in try RedisServer() }

  package static func shared() throws(TestFailure) -> RedisServer {
    try sharedResult.get()
  }

  package let port: UInt16
  /// `redis://127.0.0.1:<port>/0`, with the password if there is one.
  package let url: String
  package let password: String?
  private let folder: TemporaryFolder
  private let environment: [String]?
  private let process: Mutex<ChildProcess?>

  /// Starts it, and returns once it answers. `configuration`: further lines of redis.conf. `environment`: `NAME=value`, nil hands
  /// ours on.
  package init(
    password: String? = nil, configuration: [String] = [], environment: [String]? = nil
  ) throws(TestFailure) {
    guard ChildProcess.find("redis-server") != nil else {
      throw TestFailure("redis-server is not installed; run `make setup`")
    }
    port = try LoopbackPort.free()
    self.password = password
    self.environment = environment
    url = "redis://\(password.map { ":\($0)@" } ?? "")127.0.0.1:\(port)/0"
    folder = try TemporaryFolder("redis")
    // Without fsync a killed Redis still has all that it confirmed. With `everysec` it may answer up to 2 s before it
    // writes, while an fsync is in progress.
    var lines = [
      "bind 127.0.0.1", "port \(port)", "dir \(folder.path)", "daemonize no", "appendonly yes", "appendfsync no",
      "save \"\"", "logfile \"\"", "databases 4",
    ]
    if let password { lines.append("requirepass \(password)") }
    try folder.write((lines + configuration).joined(separator: "\n") + "\n", to: "redis.conf")
    process = Mutex(nil)
    try start()
  }

  /// The server's process; 0 while it is stopped.
  package var pid: Int32 { process.withLock { $0?.pid ?? 0 } }

  /// The server's log.
  package var log: String { folder.read("server.log") }

  /// Starts it again on the same port, with its data, after `stop` or `kill`. `arguments`: further ones of this start.
  package func start(_ arguments: [String] = []) throws(TestFailure) {
    guard let program = ChildProcess.find("redis-server") else {
      throw TestFailure("redis-server is not installed; run `make setup`")
    }
    let child = try ChildProcess(
      [program, folder.path("redis.conf")] + arguments, environment: environment, output: folder.path("server.log"),
      errors: folder.path("server.log"))
    process.withLock { $0 = child }
    let port = self.port
    let isReady = ChildProcess.poll(timeoutMilliseconds: 60_000, everyMilliseconds: 20) { () -> Bool? in
      if !child.isRunning { return false }
      // "+PONG", or "-NOAUTH" with a password; "-LOADING" means not yet.
      guard let answer = LoopbackPort.ask(port, Array("PING\r\n".utf8)) else { return nil }
      return answer.starts(with: "+PONG".utf8) || answer.starts(with: "-NOAUTH".utf8) ? true : nil
    }
    guard isReady == true else {
      child.kill()
      throw TestFailure("Redis on port \(port) did not start; its log: \(log.suffix(2_000))")
    }
  }

  /// Shuts it down; its data stays for `start`.
  package func stop() { take()?.stop() }

  /// Kills it, like a crash.
  package func kill() { take()?.kill() }

  /// Suspends it: connections stay open, nothing is answered.
  package func pause() { process.withLock { $0 }?.pause() }
  package func resume() { process.withLock { $0 }?.resume() }

  /// Runs `redis-cli` and returns what it printed.
  @discardableResult
  package func cli(_ arguments: [String]) throws(TestFailure) -> String {
    guard let program = ChildProcess.find("redis-cli") else {
      throw TestFailure("redis-cli is not installed; run `make setup`")
    }
    let login = password.map { ["--no-auth-warning", "-a", $0] } ?? []
    let result = try ChildProcess.run([program, "-h", "127.0.0.1", "-p", String(port)] + login + arguments)
    guard result.status == 0 else {
      throw TestFailure("redis-cli \(arguments.joined(separator: " ")) failed: \(result.output)\(result.errors)")
    }
    return result.output
  }

  /// Remembers the keys with this prefix, for `rewind`.
  package func mark(_ prefix: String) throws(TestFailure) {
    try cli(["EVAL", RedisServer.markScript, "1", prefix])
  }

  /// The keys with this prefix are as they were at the mark, as after a failover to a replica that was behind, or a backup.
  /// - Parameter ends: whether its clients lose their connections, as in both.
  package func rewind(_ prefix: String, ends: Bool) throws(TestFailure) {
    try cli(["EVAL", RedisServer.rewindScript, "1", prefix])
    if ends { try cli(["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]) }
  }

  private static let markScript = """
    for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do
      redis.call('RPUSH', 'mark of ' .. KEYS[1], key, redis.call('PEXPIRETIME', key), redis.call('DUMP', key))
    end
    """
  private static let rewindScript = """
    for _, key in ipairs(redis.call('KEYS', KEYS[1] .. '*')) do redis.call('DEL', key) end
    local mark = redis.call('LRANGE', 'mark of ' .. KEYS[1], 0, -1)
    for i = 1, #mark, 3 do
      redis.call('RESTORE', mark[i], math.max(0, tonumber(mark[i + 1])), mark[i + 2], 'ABSTTL')
    end
    redis.call('DEL', 'mark of ' .. KEYS[1])
    """

  private func take() -> ChildProcess? {
    process.withLock { process in
      defer { process = nil }
      return process
    }
  }
}
