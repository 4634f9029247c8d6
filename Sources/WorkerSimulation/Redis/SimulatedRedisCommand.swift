/// The commands that a simulated Redis supports: those of Herald, its scripts, its tests and an auditor.
enum SimulatedRedisCommand: String, CaseIterable {
  case append, asking, auth, bitcount, bitfield, client, cluster, decr, del, echo, eval, evalsha, exists, expire, get,
    getbit
  case getrange, hdel, hello, hexists, hget, hgetall, hincrby, hkeys, hlen, hmget, hset, hsetnx, hstrlen, hvals, incr,
    incrby
  case info, mget, persist, pexpire, pexpireat, ping, psetex, pttl, quit, readonly, readwrite, reset, role, sadd, scard,
    script
  case hscan, select, set, setbit, setex, setrange, sismember, smembers, srem, sscan, strlen, time, ttl, type, unlink,
    zadd, zcard,
    zcount
  case zrange, zrangebyscore, zrem, zremrangebyscore, zrevrangebyscore, zscan, zscore

  struct Flags: OptionSet {
    let rawValue: UInt16
    static let write = Flags(rawValue: 1)
    static let denyOOM = Flags(rawValue: 2)
    static let loading = Flags(rawValue: 4)
    static let stale = Flags(rawValue: 8)
    static let noScript = Flags(rawValue: 16)
    static let noAuth = Flags(rawValue: 32)
    static let allowBusy = Flags(rawValue: 64)
  }

  /// Which arguments are keys.
  enum Keys {
    case none
    /// The first one.
    case first
    /// All.
    case all
    /// The second argument is their count; they start at the third.
    case counted
  }

  struct Rules {
    let command: SimulatedRedisCommand
    /// The number of words with the command's name; negative: the minimum.
    let arity: Int
    let flags: Flags
    let keys: Keys

    /// The keys among the words of a command.
    func keys(of words: [[UInt8]]) -> [[UInt8]] {
      switch keys {
      case .none: return []
      case .first: return [words[1]]
      case .all: return Array(words.dropFirst())
      case .counted:
        let count = SimulatedRedisNumber.integer(words[2]).map { Int(clamping: $0) } ?? 0
        return Array(words.dropFirst(3).prefix(max(0, min(count, words.count - 3))))
      }
    }
  }

  /// By name, in upper case.
  static let byName: [[UInt8]: Rules] = {
    var byName: [[UInt8]: Rules] = [:]
    for command in allCases { byName[Array(command.rawValue.uppercased().utf8)] = command.rules }
    return byName
  }()

  /// The rules of a subcommand, by its upper-case name; nil: the command has no subcommands. As in `COMMAND INFO`.
  func rules(of word: [UInt8]) -> Rules? {
    func rules(_ arity: Int, _ flags: Flags) -> Rules { Rules(command: self, arity: arity, flags: flags, keys: .none) }
    return switch (self, String(decoding: word.map(SimulatedRedis.capital), as: UTF8.self)) {
    case (.client, "SETNAME"): rules(3, [.noScript, .loading, .stale])
    case (.client, "GETNAME"), (.client, "ID"): rules(2, [.noScript, .loading, .stale])
    case (.client, "LIST"): rules(-2, [.noScript, .loading, .stale])
    case (.script, "LOAD"): rules(3, [.noScript, .stale])
    case (.script, "EXISTS"): rules(-3, [.noScript])
    case (.script, "FLUSH"): rules(-2, [.noScript])
    case (.cluster, "SLOTS"): rules(2, [.stale])
    case (.cluster, "KEYSLOT"): rules(3, [.stale])
    default: nil
    }
  }

  /// As in `COMMAND INFO` of Redis 7.0.
  var rules: Rules {
    func rules(_ arity: Int, _ flags: Flags = [], _ keys: Keys = .none) -> Rules {
      Rules(command: self, arity: arity, flags: flags, keys: keys)
    }
    switch self {
    case .append: return rules(3, [.write, .denyOOM], .first)
    case .bitcount: return rules(-2, [], .first)
    case .bitfield: return rules(-2, [.write, .denyOOM], .first)
    case .getbit: return rules(3, [], .first)
    case .getrange, .zcount: return rules(4, [], .first)
    case .setbit, .setrange: return rules(4, [.write, .denyOOM], .first)
    case .persist: return rules(2, [.write], .first)
    case .hexists, .hstrlen: return rules(3, [], .first)
    case .srem: return rules(-3, [.write], .first)
    case .asking: return rules(1)
    case .auth: return rules(-2, [.noScript, .loading, .stale, .noAuth, .allowBusy])
    case .client: return rules(-2, [.noScript, .loading, .stale])
    case .cluster: return rules(-2, [.stale])
    case .decr, .incr: return rules(2, [.write, .denyOOM], .first)
    case .incrby: return rules(3, [.write, .denyOOM], .first)
    case .hincrby: return rules(4, [.write, .denyOOM], .first)
    case .sadd: return rules(-3, [.write, .denyOOM], .first)
    case .sismember: return rules(3, [], .first)
    case .del, .unlink: return rules(-2, [.write], .all)
    case .echo: return rules(2, [.loading, .stale])
    case .eval, .evalsha: return rules(-3, [.noScript, .stale], .counted)
    case .exists: return rules(-2, [], .all)
    case .expire, .pexpire, .pexpireat: return rules(-3, [.write], .first)
    case .get, .hgetall, .hkeys, .hlen, .hvals, .pttl, .scard, .smembers, .strlen, .ttl, .type, .zcard:
      return rules(2, [], .first)
    case .hdel: return rules(-3, [.write], .first)
    case .hello: return rules(-1, [.noScript, .loading, .stale, .noAuth, .allowBusy])
    case .hget, .zscore: return rules(3, [], .first)
    case .hmget: return rules(-3, [], .first)
    case .hset: return rules(-4, [.write, .denyOOM], .first)
    case .hscan, .sscan, .zscan: return rules(-3, [], .first)
    case .hsetnx: return rules(4, [.write, .denyOOM], .first)
    case .info: return rules(-1, [.loading, .stale])
    case .mget: return rules(-2, [], .all)
    case .ping: return rules(-1)
    case .psetex, .setex: return rules(4, [.write, .denyOOM], .first)
    case .quit: return rules(-1, [.noScript, .loading, .stale, .noAuth, .allowBusy])
    case .readonly, .readwrite: return rules(1, [.loading, .stale])
    case .reset: return rules(1, [.noScript, .loading, .stale, .noAuth, .allowBusy])
    case .role: return rules(1, [.noScript, .loading, .stale])
    case .script: return rules(-2, [.noScript, .stale])
    case .select: return rules(2, [.loading, .stale])
    case .set: return rules(-3, [.write, .denyOOM], .first)
    case .time: return rules(1, [.loading, .stale])
    case .zadd: return rules(-4, [.write, .denyOOM], .first)
    case .zrange, .zrangebyscore, .zrevrangebyscore: return rules(-4, [], .first)
    case .zremrangebyscore: return rules(4, [.write], .first)
    case .zrem: return rules(-3, [.write], .first)
    }
  }
}
