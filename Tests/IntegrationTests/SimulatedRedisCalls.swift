import PushCore
import TestSupport

@testable import PushLane
@testable import PushStores

/// Random calls like Herald's own, from a seed. There are few devices, jobs, keys and channels, so that calls collide often.
struct SimulatedRedisCalls {
  /// The words of a command, and its name in the table of counts.
  typealias Call = (name: String, words: [[UInt8]])

  /// The scripts' texts, by the names of their models.
  static let scripts: [(name: String, text: String)] = [
    ("admit", RedisScript.admit), ("tell", RedisDeviceScript.tell), ("tighten", RedisDeviceScript.tighten),
    ("mark", RedisDeviceScript.mark), ("show", RedisDeviceScript.show), ("forget", RedisDeviceScript.forget),
    ("token look", RedisTokenScript.look), ("token store", RedisTokenScript.store),
    ("token keep", RedisTokenScript.keep), ("token release", RedisTokenScript.release),
    ("channel look", ChannelScript.look), ("channel store", ChannelScript.store),
    ("channel release", ChannelScript.release), ("channel learn", ChannelScript.learn),
    ("channel policy", ChannelScript.policy), ("channel forget", ChannelScript.forget),
    ("channel claim", ChannelScript.claim), ("channel take", ChannelScript.take), ("channel use", ChannelScript.use),
    ("channel begin", ChannelScript.begin), ("channel note", ChannelScript.note),
  ]

  /// Including those of audiences.
  static var allScripts: [(name: String, text: String)] { scripts + SimulatedAudienceCalls.scripts }

  private static let texts = Dictionary(uniqueKeysWithValues: scripts.map { ($0.name, Array($0.text.utf8)) })

  var random: SeededRandom
  /// The digests that the server returned, by name.
  var digests: [String: [UInt8]] = [:]
  /// The server's clock.
  var unixMicroseconds: Int64 = 0
  private var seconds: Int64 { unixMicroseconds / 1_000_000 }

  private static let prefix = "push:"
  private static let tokenTag = "push:{token:TEAM:KEY}:"
  private static let channelTag = "push:{channels:production:com.example.app}:"
  private static let owners = ["worker-a", "worker-b", "worker-c"]

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
  }

  mutating func next() -> Call {
    switch below(100) {
    case 0..<42: return admit()
    case 42..<56: return append()
    case 56..<63: return tell()
    case 63..<66:
      return eval(
        "tighten", [device()], [rateName(below(3)), digits(1 + below(60_000_000)), digits(1 + below(400))])
    case 66..<68: return eval("mark", [device()], [digits(mark()), digits(1 + below(300))])
    case 68..<70: return eval("show", [device()], [])
    case 70..<71: return eval("forget", [device()], [])
    case 71..<77: return token()
    case 77..<89: return channel()
    case 89..<91: return strange()
    default: return plain()
    }
  }

  // MARK: - Devices

  private mutating func admit() -> Call {
    let count = below(5) < 3 ? 1 : 2 + below(7)
    var keys: [[UInt8]] = []
    var asks: [[UInt8]] = []
    for _ in 0..<count {
      keys.append(device())
      asks.append(ask())
    }
    return evalsha("admit", keys, asks + [settings()])
  }

  private mutating func ask() -> [UInt8] {
    var ask: [UInt8] = [UInt8([0, 1, 1, 1, 2, 2, 254, 255][below(8)])] + job() + claim()
    ask += double(below(4) > 0 ? 0 : Double(mark()))
    let shape = below(8)
    if shape < 2 { return ask }
    ask += below(4) > 0 ? [UInt8(1 + below(3)), 7, 0, 13, 10, 1, 2, 3] : [UInt8](repeating: 0, count: 8)
    ask += double(Double((seconds - Int64(below(6))) * 1000))
    if shape < 4 { return ask }
    ask += (below(3) > 0 ? claim() : [0, 0, 0, 0]) + [UInt8(below(2) | below(3) << 1)]
    ask += double(below(3) > 0 ? 0 : Double((seconds - Int64(below(6))) * 1000))
    if shape < 6 { return ask }
    let point = Double((seconds - Int64(below(4))) * 1_000_000)
    return ask + double(point) + double(point + [0, 40_000, 999_999, 9e18][below(4)])
  }

  /// One of two sets of times: with the short ones, claims and answers expire within the test.
  private mutating func settings() -> [UInt8] {
    let isShort = below(3) > 0
    var bytes = double(isShort ? 20 : 3600) + double(isShort ? 90 : 21_600) + double(isShort ? 8 : 60) + double(2)
    for (number, rate) in [(0.0, 0.0), (4_000_000, 8_000_000), (250_000, 500_000)].enumerated() {
      bytes += double(rate.0) + double(rate.1) + rateName(number)
    }
    return bytes
  }

  private mutating func append() -> Call { ("APPEND", words("APPEND") + [device(), answer()]) }

  private mutating func tell() -> Call {
    evalsha(
      "tell", [device()],
      [answer(), digits(100 + below(22_000)), digits(below(4) > 0 ? 0 : mark()), digits(1 + below(300))])
  }

  private mutating func answer() -> [UInt8] {
    let outcome = RememberedOutcome(
      outcome: Outcome.allCases[below(Outcome.allCases.count)], status: below(4) > 0 ? 200 : nil,
      unregisteredAt: below(6) > 0 ? nil : Int64(mark()), attempts: UInt32(below(4)), isAmbiguous: below(3) == 0,
      sentAt: below(3) > 0 ? unixMicroseconds / 1000 - 40 : nil, completedAt: unixMicroseconds / 1000)
    var record: [UInt8] = [161, 0] + job()
    outcome.encode(into: &record)
    record[1] = UInt8(record.count - 2)
    return record
  }

  private mutating func device() -> [UInt8] {
    // One device gets most pushes, so that its jobs move to their own keys.
    let number = below(3) == 0 ? 0 : below(100) == 0 ? 40 : below(40)
    return Array("\(Self.prefix){device-\(number)}".utf8)
  }

  /// Some names look like kinds and counts in the stored bytes.
  private mutating func job() -> [UInt8] {
    let number = UInt8(below(30))
    return number < 6 ? [5, 161, number, 9, 5, 1, 161, 20] : [number, 1, 2, 3, number &* 7, 5, 6, 7]
  }

  private mutating func claim() -> [UInt8] { [UInt8(1 + below(5)), 0, 0, 9] }

  /// In whole seconds, so that two can be equal.
  private mutating func mark() -> Int { (Int(seconds) - below(200) + 50) * 1000 }

  private func rateName(_ number: Int) -> [UInt8] {
    [[0xE2, 7, 0x55, 1], [0x10, 0x32, 0x54, 0x76], [9, 9, 9, 9]][number]
  }

  /// A value of another program, of another version, or none.
  private mutating func strange() -> Call {
    switch below(8) {
    case 0: return ("DEL", words("DEL", "\(Self.prefix){device-40}") + [device()])
    case 1: return ("PEXPIRE", words("PEXPIRE") + [device(), digits(below(4000))])
    case 2: return ("HSET on a device", words("HSET", "\(Self.prefix){device-40}", "a", "b"))
    default:
      var value: [UInt8] = below(3) == 0 ? [] : [209]
      for _ in 0..<below(9) {
        switch below(7) {
        case 0: value += [1] + bytes(7, below: 7) + rateName(below(3)) + bytes(1)
        case 1: value += [3] + double(Double(mark())) + number(Int(seconds) - 100 + below(200))
        case 2: value += [UInt8(2 + 2 * below(2))] + number(Int(seconds) - 100 + below(200))
        case 3: value += answer()
        case 4: value += [5] + job() + claim() + number(Int(seconds) - 100 + below(200)) + bytes(1, below: 3)
        case 5: value += [161] + bytes(1, below: 40) + bytes(below(24))
        default: value += bytes(1 + below(20))
        }
      }
      return ("SET on a device", words("SET") + [device(), value] + words("EX", "500"))
    }
  }

  // MARK: - Tokens and channels

  private mutating func token() -> Call {
    let keys = words(Self.tokenTag + "value", Self.tokenTag + "lock")
    let owner = words(Self.owners[max(0, below(5) - 2)])[0]
    let issued = digits(Int(seconds) - 3700 + (below(3) == 0 ? below(3800) : 3600) + below(200))
    switch below(10) {
    case 0: return ("DEL of a token", words("DEL") + [keys[below(2)]])
    case 1...4:
      return eval(
        "token look", keys, [digits(Int(seconds) - below(3000)), digits(2400), digits(1200), owner, digits(5000)])
    case 5, 6, 7:
      return eval("token store", keys, [owner, issued, digits(below(2) == 0 ? 1200 : 3), digits(3600), bytes(30)])
    case 8: return eval("token keep", [keys[0]], [issued, digits(below(3700)), digits(3600), digits(1200), bytes(30)])
    default: return eval("token release", [keys[1]], [owner])
    }
  }

  private mutating func channel() -> Call {
    func key(_ name: String) -> [UInt8] { Array((Self.channelTag + name).utf8) }
    let number = below(9)
    let name = words("match \(number)")[0]
    let lock = key("lock:match \(number)")
    let owner = words(Self.owners[max(0, below(5) - 2)])[0]
    let id = id()
    let milliseconds = digits(Int(unixMicroseconds / 1000))
    let (names, ids, intents, count, used) = (key("names"), key("ids"), key("intents"), key("count"), key("used"))
    let discarded = key("discarded")
    switch below(19) {
    case 14...16, 0..<3:
      return eval(
        "channel look", [names, ids, intents, lock, count, discarded],
        [
          name, owner, digits(2000 + below(9000)), digits(below(2)), digits(3 + below(6)),
          digits(below(5) == 0 ? 0 : 1),
        ])
    case 3, 4:
      let entry = words("\(below(2))\t\(unixMicroseconds / 1000)\tr\(below(9))\tmatch \(number)")[0]
      return eval(
        "channel store", [names, ids, intents, lock, count, discarded],
        [name, owner, id, entry, digits(below(2)), below(2) == 0 ? [] : self.id()])
    case 5: return eval("channel release", [intents, lock], [name, owner, digits(below(2)), digits(below(2))])
    case 6: return eval("channel learn", [ids, intents], [milliseconds, digits(below(2)), id, self.id(), self.id()])
    case 7: return eval("channel policy", [ids, intents], [id, digits(below(2)), milliseconds])
    case 8: return eval("channel forget", [names, ids, used, count], [id])
    case 9: return eval("channel claim", [names, ids, used], [id, digits(Int(seconds) - below(100))])
    case 10: return eval("channel take", [ids, discarded], [id, milliseconds])
    case 11: return eval("channel use", [used], [digits(Int(seconds) - below(100)), id, self.id()])
    case 17: return eval("channel begin", [names, used], [name])
    case 18: return eval("channel note", [intents, lock], [name, owner, digits(below(2)), self.id(), digits(2000)])
    case 12 where below(3) > 0:
      return ("DEL of a channel key", words("DEL") + [[names, ids, intents, lock, count, used, discarded][below(7)]])
    case 12: return ("SET of a count", words("SET") + [count, digits(below(9))] + words("EX", "600"))
    default:
      switch below(6) {
      case 0: return ("HGETALL", words("HGETALL") + [[names, ids, intents][below(3)]])
      case 1: return ("HMGET", words("HMGET") + [ids, id, self.id()])
      case 2: return ("HVALS", words("HVALS") + [intents])
      case 3: return ("ZRANGE", words("ZRANGE") + [used] + words("0", "-1", "WITHSCORES"))
      case 4: return ("HSETNX", words("HSETNX") + [names, name, id])
      default: return ("HGET", words("HGET") + [names, name])
      }
    }
  }

  private mutating func id() -> [UInt8] { words("dHN0LXNyY2gtY2hu\(below(12))==")[0] }

  // MARK: - Other commands

  private mutating func plain() -> Call {
    let key = words("plain:\(below(12))")[0]
    let all: [[[UInt8]]] = [
      words("GET") + [key], words("SET") + [key, digits(below(50))], words("SET") + [key] + words("1", "PX", "1000"),
      words("SET") + [key] + words("x", "NX", "EX", "9"), words("SET") + [key] + words("x", "XX"),
      words("SETEX") + [key, digits(below(20))] + words("body"), words("INCR") + [key], words("DECR") + [key],
      words("APPEND") + [key] + words("7"), words("STRLEN") + [key], words("TTL") + [key], words("PTTL") + [key],
      words("EXPIRE") + [key, digits(below(30) - 2)], words("PEXPIRE") + [key, digits(below(3000))],
      words("EXISTS") + [key, key], words("TYPE") + [key], words("MGET") + [key, device()], words("DEL") + [key],
      words("GET") + [device()], words("TIME"), words("PING"), words("SET", "push:probe", "1", "PX", "1000"),
      words("HSET") + [key] + words("f", "v", "g", "w"), words("HDEL") + [key] + words("f", "h"), words("HLEN") + [key],
      words("ZADD") + [key] + words("5", "m", "2.5", "n"), words("ZREM") + [key] + words("m"),
      words("ZSCORE") + [key] + words("n"),
      words("INCRBY") + [key, digits(below(9))], words("HINCRBY") + [key] + words("n", "3"), words("HKEYS") + [key],
      words("SADD") + [key, digits(below(6)), digits(below(6))], words("SMEMBERS") + [key], words("SCARD") + [key],
      words("SISMEMBER") + [key, digits(below(6))],
      words("PEXPIREAT") + [key, digits(Int(unixMicroseconds / 1000) + below(3_000) - 500)],
      words("ZRANGEBYSCORE") + [key] + words("-inf", "4", "LIMIT", "0", "1"),
      words("ZREMRANGEBYSCORE") + [key] + words("-inf", "2"),
      words("CLIENT", "SETNAME", "herald"), words("CLIENT", "GETNAME"), words("ECHO", "a"), words("SELECT", "0"),
      words("TTL") + [device()], words("PTTL") + [device()], words("mget") + [device(), device(), device()],
      // A command that Redis refuses.
      words("NOSUCH", "a", "b"), words("GET"), words("SET") + [key] + words("v", "EX", "0"),
      words("SET") + [key] + words("v", "EX", "x"),
      words("SET") + [key] + words("v", "NX", "XX"), words("SETEX") + [key] + words("0", "v"),
      words("EVALSHA", "abc", "0"),
      words("EVALSHA", String(repeating: "f", count: 40), "0"),
      words("EVALSHA") + [digests["admit"] ?? []] + words("2", "a"),
      words("EVALSHA") + [digests["admit"] ?? []] + words("-1"), words("ASKING"), words("CLUSTER", "SLOTS"),
      words("SELECT", "99"), words("AUTH", "x"), words("ZADD") + [key] + words("x", "m"),
      words("HSET") + [key] + words("f"),
      words("SCRIPT", "NOSUCH"), words("CLIENT", "NOSUCH"), words("SCRIPT", "LOAD"),
      words("EXPIRE") + [key] + words("x"),
      words("SCRIPT", "EXISTS") + [digests["admit"] ?? [], digests["tell"] ?? []] + words("abc"),
      words("SCRIPT", "LOAD") + [Self.texts["admit"] ?? []],
    ]
    let command = below(200) == 0 ? words("SCRIPT", "FLUSH") : all[below(all.count)]
    return (String(decoding: command[0], as: UTF8.self).uppercased(), command)
  }

  // MARK: - Parts

  private mutating func eval(_ name: String, _ keys: [[UInt8]], _ arguments: [[UInt8]]) -> Call {
    (name, words("EVAL") + [Self.texts[name] ?? [], digits(keys.count)] + keys + arguments)
  }

  private mutating func evalsha(_ name: String, _ keys: [[UInt8]], _ arguments: [[UInt8]]) -> Call {
    (name, words("EVALSHA") + [digests[name] ?? [], digits(keys.count)] + keys + arguments)
  }

  private func words(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }
  private func digits(_ number: Int) -> [UInt8] { Array(String(number).utf8) }

  private func double(_ number: Double) -> [UInt8] {
    (0..<8).map { UInt8(truncatingIfNeeded: number.bitPattern >> UInt64(8 * $0)) }
  }

  private func number(_ number: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }

  mutating func below(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }

  private mutating func bytes(_ count: Int, below bound: Int = 256) -> [UInt8] {
    (0..<count).map { _ in UInt8(below(bound)) }
  }
}
