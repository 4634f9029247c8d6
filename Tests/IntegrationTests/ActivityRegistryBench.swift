import PushCore
import PushIO
import PushStores
import TestSupport

/// Registries of activities over a real Redis, on one loop, driven turn by turn. Its clock is set by the test.
final class ActivityRegistryBench {
  let loop: EventLoop
  let scope: AppScope
  let prefix: String
  private(set) var registries: [ActivityRegistry] = []
  private var callers: [RedisClient] = []
  /// Unix milliseconds.
  var now: Int64
  private let url: String

  init(url: String, registries count: Int = 1) throws {
    self.url = url
    loop = try EventLoop()
    now = loop.now.unixMilliseconds
    prefix = "activities-\(UInt32.random(in: 0 ... .max)):"
    guard let scope = AppScope(app: "com.example.app", environment: .sandbox) else { throw TestFailure("no scope") }
    self.scope = scope
    for _ in 0..<count { try addRegistry() }
  }

  /// A registry as in another process.
  @discardableResult
  func addRegistry() throws -> ActivityRegistry {
    let caller = RedisClient(
      loop: loop, configuration: try RedisConfiguration(url: url), tls: nil, seed: UInt64(registries.count))
    let registry = ActivityRegistry(loop: loop, redis: caller, prefix: prefix, clock: { [unowned self] in now })
    callers.append(caller)
    registries.append(registry)
    guard turn(until: { caller.isConnected }) else { throw TestFailure("no connection to Redis") }
    return registry
  }

  /// Kills the last registry: it sends nothing more. Returns once Redis has run what it had sent.
  func killLast() throws {
    let caller = callers.removeLast()
    registries.removeLast()
    caller.close()
    let connections = callers.count
    guard turn(until: { (try? self.connectionCount()) == connections }) else {
      throw TestFailure("Redis keeps a connection that was closed")
    }
  }

  private func connectionCount() throws -> Int {
    var reply: RedisReply?
    callers[0].call(["CLIENT", "LIST"], key: prefix) { reply = try? $0.get() }
    guard turn(until: { reply != nil }) else { throw TestFailure("no answer") }
    return reply?.text?.split(separator: "\n").count ?? 0
  }

  func turn() {
    loop.poll(maximumWaitMilliseconds: 1)
    for caller in callers { caller.turn() }
    loop.flush()
  }

  /// Turns until the condition holds; false after `milliseconds`.
  func turn(milliseconds: Int64 = 15_000, until isDone: () -> Bool) -> Bool {
    turn()
    let start = loop.now.monotonic
    while !isDone() {
      turn()
      if loop.now.monotonic.milliseconds(since: start) > milliseconds { return false }
    }
    return true
  }

  /// Waits for one answer.
  func wait<Value>(_ ask: (@escaping ActivityRegistry.Then<Value>) -> Void) throws -> Value {
    var answer: Result<Value, ActivityRegistryFailure>?
    ask { answer = $0 }
    guard turn(until: { answer != nil }), let answer else { throw TestFailure("no answer") }
    return try answer.get()
  }

  func command(_ arguments: [String]) throws -> RedisReply {
    var reply: RedisReply?
    callers[0].call(arguments, key: prefix) { reply = try? $0.get() }
    guard turn(until: { reply != nil }), let reply else { throw TestFailure("no answer to \(arguments)") }
    return reply
  }

  func show(_ id: ActivityID) throws -> ActivityRegistry.Snapshot? {
    try wait { registries[0].show(id, in: scope, then: $0) }
  }

  /// Every live member, page by page.
  func live(_ id: ActivityID, limit: Int = 500) throws -> [UInt32] {
    var found: [UInt32] = []
    while true {
      let page = try wait { registries[0].live(id, in: scope, after: found.last, limit: limit, then: $0) }
      found += page.ordinals
      if !page.hasMore { return found }
    }
  }
}
