import PushCore
import PushIO
import PushStores

/// Tries on every node of a Redis what workers and gateways do there, on keys of its own: a server that answers a `PING` may be a read-only
/// replica, be full, evict what must stay, or refuse the user a command.
struct RedisProbe {
  /// What Herald uses Redis for, by the rights that `docs/redis.md` and `docs/reference/registry.md` list for it.
  enum Use: String, CaseIterable {
    case sending, channels
    case gateway = "a gateway"
    case devices = "devices, audiences and activities"

    fileprivate var commands: [String] {
      switch self {
      case .sending: ["get", "mget", "set", "append", "del", "time", "ttl"]
      case .channels:
        [
          "expire", "hget", "hmget", "hset", "hsetnx", "hdel", "hlen", "hscan", "zadd", "zrem", "zscore", "zscan",
          "pexpire",
          "exists", "incr", "decr", "setex",
        ]
      case .gateway: ["hget", "hset", "hdel", "hgetall", "hscan", "incr", "exists", "expire", "pexpire", "setex"]
      case .devices:
        [
          "hget", "hset", "hdel", "hmget", "hgetall", "hkeys", "hlen", "hscan", "hsetnx", "hincrby", "zadd", "zrem",
          "zscore",
          "zrange", "zrangebyscore", "zrevrangebyscore", "zremrangebyscore", "incrby", "strlen", "setbit", "getrange",
          "setrange", "bitfield", "bitcount", "exists", "expire", "pexpireat", "pttl", "rename", "sadd", "sismember",
          "sscan",
        ]
      }
    }
  }

  struct Result {
    /// Why no worker can use this Redis; nil: each can.
    var fault: String?
    /// What this Redis can be used for only in part, or not for long.
    var remarks: [String] = []
  }

  /// What makes this Redis useless where it is refused.
  let required: Set<Use>
  /// What else it may be used for.
  let optional: Set<Use>
  let prefix: String

  func run(_ session: RedisSession) throws(RedisError) -> Result {
    var result = Result()
    for (node, key) in session.keyOfEachNode(prefix: prefix + "check:") {
      let found = try run(session, key: key)
      result.fault = result.fault ?? found.fault.map { "\(node): \($0)" }
      for remark in found.remarks where !result.remarks.contains(remark) { result.remarks.append(remark) }
    }
    return result
  }

  /// On the node of this key.
  private func run(_ session: RedisSession, key: String) throws(RedisError) -> Result {
    var result = Result()
    let uses = Use.allCases.filter { required.contains($0) || optional.contains($0) }
    var refusals: [(command: String, error: RedisServerError)] = []
    let names = Set(uses.flatMap(\.commands)).sorted()
    let replies = try session.run(names.map { RedisSession.Command(RedisProbe.command($0, key: key), key: key) })
    for (name, reply) in zip(names, replies) {
      // There may be nothing to rename.
      if case .error(let error) = reply, name != "rename" || error.kind == .notPermitted {
        refusals.append((name, error))
      }
    }
    refusals += try runScript(session, key: key)
    _ = try session.run([.init(["DEL"] + RedisProbe.keys(key), key: key)])
    if let (_, error) = refusals.first(where: { $0.error.kind != .notPermitted }) {
      result.fault = error.description
      return result
    }
    if refusals.contains(where: { !RedisProbe.namesCommand($0.error) }) {
      result.fault = "the ACL user may not use keys of this prefix: allow ~\(prefix)*"
      return result
    }
    let missing = Set(refusals.map(\.command))
    for use in uses {
      let commands = use == .sending ? ["evalsha", "eval", "script|load"] + use.commands : use.commands
      let rights = commands.filter(missing.contains).map { "+\($0)" }.joined(separator: " ")
      guard !rights.isEmpty else { continue }
      let text = "the ACL user lacks rights for \(use.rawValue): \(rights)"
      if required.contains(use) { result.fault = result.fault ?? text } else { result.remarks.append(text) }
    }
    try look(session, key: key, &result)
    return result
  }

  /// Runs a script as a lane does. It calls nothing: its commands are tried by themselves.
  private func runScript(
    _ session: RedisSession, key: String
  ) throws(RedisError) -> [(command: String, error: RedisServerError)] {
    let text = "return 1"
    let digest = LuaScript(text).digest
    let calls = [
      ("script|load", ["SCRIPT", "LOAD", text]), ("evalsha", ["EVALSHA", digest, "1", key]),
      ("eval", ["EVAL", text, "1", key]),
    ]
    let replies = try session.run(calls.map { .init($0.1, key: key) })
    return zip(calls, replies).compactMap { call, reply in
      // Where it could not be loaded it may be unknown.
      guard case .error(let error) = reply, error.kind != .noScript else { return nil }
      return (call.0, error)
    }
  }

  /// What it evicts once it is full.
  private func look(_ session: RedisSession, key: String, _ result: inout Result) throws(RedisError) {
    let reply = try session.run([.init(["INFO", "memory"], key: key)])[0]
    guard let text = reply.text else {
      return result.remarks.append("its eviction policy is not known: the ACL user lacks +info")
    }
    let lines = text.split(whereSeparator: \.isNewline)
    func value(_ name: String) -> String? {
      lines.first { $0.hasPrefix("\(name):") }.map { String($0.dropFirst(name.count + 1)) }
    }
    guard let policy = value("maxmemory_policy"), let maximum = value("maxmemory"), maximum != "0" else { return }
    if policy.hasPrefix("allkeys") {
      result.fault =
        result.fault ?? "maxmemory-policy \(policy) evicts what must stay: set noeviction or volatile-ttl"
    } else if policy != "noeviction", policy != "volatile-ttl" {
      result.remarks.append(
        "maxmemory-policy \(policy) may evict what is needed longest: set noeviction or volatile-ttl")
    }
  }

  // MARK: - Commands

  private static func namesCommand(_ error: RedisServerError) -> Bool { error.message.contains("run the '") }

  /// One for each type.
  private static func keys(_ key: String) -> [String] {
    ["text", "hash", "sorted", "set", "bits"].map { "\(key):\($0)" }
  }

  private static func command(_ name: String, key: String) -> [String] {
    let keys = keys(key)
    let (text, hash, sorted, set, bits) = (keys[0], keys[1], keys[2], keys[3], keys[4])
    let arguments =
      switch name {
      case "time": [String]()
      case "get", "ttl", "pttl", "strlen", "exists", "incr", "decr": [text]
      case "mget": [text]
      case "rename": [text, text]
      case "set": [text, "1", "PX", "1000"]
      case "append": [text, "1"]
      case "setex": [text, "1", "1"]
      case "incrby": [text, "1"]
      case "expire": [text, "1"]
      case "pexpire": [text, "1000"]
      case "pexpireat": [text, "1"]
      case "del": [text]
      case "hget", "hdel", "hmget": [hash, "a"]
      case "hset", "hsetnx", "hincrby": [hash, "a", "1"]
      case "hgetall", "hkeys", "hlen": [hash]
      case "hscan": [hash, "0"]
      case "zadd": [sorted, "1", "a"]
      case "zrem", "zscore": [sorted, "a"]
      case "zscan": [sorted, "0"]
      case "zrange", "zrangebyscore", "zrevrangebyscore", "zremrangebyscore": [sorted, "0", "0"]
      case "setbit": [bits, "0", "1"]
      case "getrange": [bits, "0", "0"]
      case "setrange": [bits, "0", "a"]
      case "bitfield": [bits, "GET", "u8", "0"]
      case "bitcount": [bits]
      case "sadd", "sismember": [set, "a"]
      case "sscan": [set, "0"]
      default: preconditionFailure("\(name) has no arguments here")
      }
    return [name.uppercased()] + arguments
  }
}
