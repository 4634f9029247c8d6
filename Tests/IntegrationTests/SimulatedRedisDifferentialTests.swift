import PushCore
import TestSupport
import Testing
import WorkerSimulation

/// A real Redis and the simulated one get the same bytes, and must answer and store the same bytes.
///
/// The real one's clock moves only when the test sets it (`FrozenRedis`). So every reply, every value and every
/// remaining lifetime can be compared exactly.
@Suite(.timeLimit(.minutes(3)))
struct SimulatedRedisDifferentialTests {
  /// A real and a simulated server that get the same commands.
  private struct Pair {
    static let start: Int64 = 1_796_000_000_123_456
    let real: FrozenRedis
    let model: SimulatedRedis
    let connection = SimulatedConnectionID(1)
    /// The world's clock, nanoseconds.
    var now: Int64 = 0
    var asked = 0
    private var random: SeededRandom

    init(seed: UInt64) throws {
      // Small hashes list their fields in the order of insertion, which both servers know.
      real = try FrozenRedis(
        unixMicroseconds: Self.start,
        configuration: [
          "hash-max-listpack-entries 100000", "hash-max-listpack-value 100000", "databases 16",
          "enable-debug-command yes",
        ])
      var settings = SimulatedRedisSettings()
      settings.unixMicroseconds = Self.start
      settings.listedFieldsMaximum = 100_000
      settings.listedBytesMaximum = 100_000
      model = SimulatedRedis(settings: settings, seed: seed)
      model.opened(connection, now: 0)
      random = SeededRandom(seed: seed &+ 1)
      // Expired keys go when they are read, not in the background: the clock may be set back in between.
      _ = try tellReal("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    }

    /// Sets both clocks to the same time, later or earlier.
    mutating func pass(microseconds: Int64) throws {
      if microseconds < 0 { model.jumpClock(byMicroseconds: microseconds) } else { now += microseconds * 1000 }
      try real.set(unixMicroseconds: model.unixMicroseconds(at: now))
    }

    /// Sends a command to the real server only.
    func tellReal(_ words: String...) throws -> [UInt8] {
      try real.exchange(encode(words.map { Array($0.utf8) }) + ping("only"), endingWith: Array("$4\r\nonly\r\n".utf8))
    }

    /// Sends the same to both. Returns the replies of each, without the end mark.
    mutating func ask(_ commands: [[[UInt8]]]) throws -> (real: [UInt8], model: [UInt8]) {
      asked += 1
      let mark = "asked-\(asked)"
      let bytes = commands.flatMap(encode) + ping(mark)
      let end = Array("$\(mark.utf8.count)\r\n\(mark)\r\n".utf8)
      let answered = try real.exchange(bytes, endingWith: end)
      // In parts: that must make no difference.
      var at = 0
      while at < bytes.count {
        let count = min(bytes.count - at, random.next() % 4 == 0 ? 1 + Int(random.next() % 40) : 4000)
        model.received(Array(bytes[at..<at + count]), on: connection, now: now)
        at += count
      }
      var said: [UInt8] = []
      while let action = model.nextAction() {
        if case .send(_, let part) = action { said += part }
      }
      return (answered.dropLast(end.count), said.dropLast(end.count))
    }

    private func ping(_ mark: String) -> [UInt8] { encode([Array("ECHO".utf8), Array(mark.utf8)]) }

    private func encode(_ words: [[UInt8]]) -> [UInt8] {
      Array("*\(words.count)\r\n".utf8) + words.flatMap { Array("$\($0.count)\r\n".utf8) + $0 + [13, 10] }
    }
  }

  /// The end of the reply that starts here.
  private static func end(of bytes: ArraySlice<UInt8>) -> Int {
    guard let line = bytes.firstIndex(of: 10), let kind = bytes.first else { return bytes.endIndex }
    let count = Int(String(decoding: bytes[(bytes.startIndex + 1)..<(line - 1)], as: UTF8.self)) ?? 0
    switch kind {
    case UInt8(ascii: "$") where count >= 0, UInt8(ascii: "="): return line + 1 + count + 2
    case UInt8(ascii: "*"), UInt8(ascii: "~"), UInt8(ascii: "%"):
      var at = line + 1
      for _ in 0..<max(0, kind == UInt8(ascii: "%") ? count * 2 : count) { at = end(of: bytes[at...]) }
      return at
    default: return line + 1
    }
  }

  private static func replies(_ bytes: [UInt8]) -> [ArraySlice<UInt8>] {
    var replies: [ArraySlice<UInt8>] = []
    var at = 0
    while at < bytes.count {
      let stop = end(of: bytes[at...])
      replies.append(bytes[at..<stop])
      at = stop
    }
    return replies
  }

  /// The elements of a list; any other reply alone.
  private static func elements(_ reply: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    guard reply.first == UInt8(ascii: "*"), let line = reply.firstIndex(of: 10) else { return [reply] }
    return replies(Array(reply[(line + 1)...]))
  }

  private static func readable(_ bytes: some Collection<UInt8>) -> String {
    bytes.prefix(900).map { $0 >= 32 && $0 < 127 ? String(UnicodeScalar($0)) : "\\\($0)" }.joined()
  }

  /// Reports the first difference, or all. Returns whether the replies are equal.
  private static func compare(
    _ answers: (real: [UInt8], model: [UInt8]), to calls: [SimulatedRedisCalls.Call], _ comment: String,
    reportsAll: Bool = false
  ) -> Bool {
    if answers.real == answers.model { return true }
    let real = replies(answers.real)
    let model = replies(answers.model)
    for index in 0..<max(real.count, model.count)
    where index >= real.count || index >= model.count || Array(real[index]) != Array(model[index]) {
      let call = index < calls.count ? calls[index] : (name: "?", words: [])
      let words = call.words.map { readable($0.count > 700 ? $0.prefix(20) : $0[...]) }.joined(separator: " ")
      Issue.record(
        """
        \(comment), \(call.name): \(words)
        real:  \(index < real.count ? readable(real[index]) : "nothing")
        model: \(index < model.count ? readable(model[index]) : "nothing")
        """)
      if !reportsAll { return false }
    }
    return false
  }

  /// All keys with their values and lifetimes.
  private static func compareKeys(_ pair: inout Pair, _ comment: String) throws -> Bool {
    let keys = pair.model.keys(now: pair.now)
    let listed = replies(try pair.tellReal("KEYS", "*"))
    let real = listed.first.map { bytes in
      let line = bytes.firstIndex(of: 10) ?? bytes.startIndex
      return replies(Array(bytes[(line + 1)...])).map { $0.drop { $0 != 10 }.dropFirst().dropLast(2) }
    }
    let known = (real ?? []).map(Array.init).sorted { $0.lexicographicallyPrecedes($1) }
    if known != keys {
      let missing = Set(known).subtracting(keys).map(readable)
      let odd = Set(keys).subtracting(known).map(readable)
      Issue.record("\(comment): the model lacks \(missing.prefix(3)), and has \(odd.prefix(3)) alone")
      return false
    }
    var commands: [SimulatedRedisCalls.Call] = []
    for key in keys {
      commands.append(("PTTL", [Array("PTTL".utf8), key]))
      switch pair.model.entry(key, now: pair.now)?.value {
      case .hash: commands.append(("HGETALL", [Array("HGETALL".utf8), key]))
      case .sortedSet:
        commands.append(("ZRANGE", ["ZRANGE", "", "0", "-1", "WITHSCORES"].map { $0.isEmpty ? key : Array($0.utf8) }))
      case .set(let set):
        // Redis lists texts in an order of its own.
        commands.append(("SCARD", [Array("SCARD".utf8), key]))
        for member in set.listed { commands.append(("SISMEMBER", [Array("SISMEMBER".utf8), key, member])) }
      case .string, nil: commands.append(("GET", [Array("GET".utf8), key]))
      }
    }
    return compare(try pair.ask(commands.map(\.words)), to: commands, comment + ", all keys")
  }

  /// A state in which Redis refuses writes, and the commands that cause it.
  private enum State: CaseIterable {
    case fine, outOfMemory, lacksReplicas, replica, stale

    func begin(_ pair: inout Pair) throws {
      switch self {
      case .fine: break
      case .outOfMemory:
        _ = try pair.tellReal("CONFIG", "SET", "maxmemory", "1")
        pair.model.isOutOfMemory = true
      case .lacksReplicas:
        _ = try pair.tellReal("CONFIG", "SET", "min-replicas-to-write", "1")
        pair.model.lacksReplicas = true
      case .replica, .stale:
        _ = try pair.tellReal("CONFIG", "SET", "replica-serve-stale-data", self == .stale ? "no" : "yes")
        _ = try pair.tellReal("REPLICAOF", "127.0.0.1", "1")
        pair.model.role = .replica(host: "127.0.0.1", port: 1)
        pair.model.isPrimaryDown = self == .stale
      }
    }

    func end(_ pair: inout Pair) throws {
      _ = try pair.tellReal("CONFIG", "SET", "maxmemory", "0")
      _ = try pair.tellReal("CONFIG", "SET", "min-replicas-to-write", "0")
      if case .replica = pair.model.role { _ = try pair.tellReal("REPLICAOF", "NO", "ONE") }
      pair.model.isOutOfMemory = false
      pair.model.lacksReplicas = false
      pair.model.role = .primary
      pair.model.isPrimaryDown = false
    }
  }

  /// What Redis' scripting does beside Herald's scripts: values in both directions, errors and their lines, protected globals, refusals.
  @Test(arguments: [2, 3]) func scriptsBehaveTheSame(version: Int) throws {
    var pair = try Pair(seed: 7)
    _ = try pair.ask([["HELLO", "\(version)"].map { Array($0.utf8) }])
    let calls: [SimulatedRedisCalls.Call] = SimulatedScripts.texts.map { text in
      let words = ["EVAL", text, "2", "k{t}1", "k{t}2", "12", "", "x\r\ny"]
      return ("EVAL", words.map { Array($0.utf8) })
    }
    for state in State.allCases {
      try state.begin(&pair)
      #expect(
        Self.compare(try pair.ask(calls.map(\.words)), to: calls, "version \(version), \(state)", reportsAll: true))
      try state.end(&pair)
      #expect(try Self.compareKeys(&pair, "version \(version), \(state)"))
    }
  }

  @Test func aHundredAndTwentyThousandCallsAreAnsweredTheSame() throws {
    var callsLeft = 120_000
    let seed: UInt64 = 20_260_817
    var pair = try Pair(seed: seed)
    var loud: [String] = []
    pair.model.observe = { observation in
      switch observation {
      // The calls include a command that no Redis has.
      case .unsupportedCommand(let words) where !words.contains(Array("NOSUCH".utf8)):
        loud.append("\(words.map(Self.readable))")
      case .failedScript(let text): loud.append(text)
      case .unsupportedCommand, .script, .command, .protocolViolation: break
      }
    }
    var calls = SimulatedRedisCalls(seed: seed)
    var audiences = SimulatedAudienceCalls(seed: seed &+ 1)
    var counts: [String: [String: Int]] = [:]
    var batch = 0
    var version = 2
    while callsLeft > 0 {
      batch += 1
      let comment = "seed \(seed), batch \(batch)"
      try pair.pass(microseconds: Self.step(&calls))
      calls.unixMicroseconds = pair.model.unixMicroseconds(at: pair.now)
      audiences.unixMicroseconds = calls.unixMicroseconds
      if batch % 5 == 0 {
        version = batch % 25 == 0 ? 3 : 2
        // The two servers number their connections differently.
        _ = try pair.ask([[Array("HELLO".utf8), Array("\(version)".utf8)]])
      }
      // Sometimes both servers lose their scripts.
      let loads = ["admit", "tell"].compactMap { name in
        SimulatedRedisCalls.scripts.first { $0.name == name }.map {
          [Array("SCRIPT".utf8), Array("LOAD".utf8), Array($0.text.utf8)]
        }
      }
      let loaded = try pair.ask(loads)
      guard loaded.real == loaded.model else {
        Issue.record("\(comment): SCRIPT LOAD gave \(Self.readable(loaded.real)) and \(Self.readable(loaded.model))")
        return
      }
      for (name, reply) in zip(["admit", "tell"], Self.replies(loaded.real)) {
        calls.digests[name] = Array(reply.dropFirst(5).dropLast(2))
      }
      let state = batch % 12 == 0 ? State.allCases[batch / 12 % State.allCases.count] : .fine
      try state.begin(&pair)
      let now = (0..<min(200, callsLeft)).map { $0 % 4 == 0 ? audiences.next() : calls.next() }
      callsLeft -= now.count
      let answers = try pair.ask(now.map(\.words))
      guard Self.compare(answers, to: now, "\(comment), \(state)") else { return }
      try state.end(&pair)
      for (call, reply) in zip(now, Self.replies(answers.real)) {
        // A list counts by its first element, or by each.
        let isOfMany = call.name == "admit" && reply.first == UInt8(ascii: "*")
        let kinds =
          isOfMany || call.name == "channel look" ? Self.elements(reply).map(Self.kind) : [Self.kind(of: reply)]
        for kind in isOfMany ? kinds[...] : kinds.prefix(1) { counts[call.name, default: [:]][kind, default: 0] += 1 }
      }
      if batch % 20 == 0, try !Self.compareKeys(&pair, comment) { return }
    }
    #expect(loud.isEmpty, "\(loud.prefix(3))")
    for (name, kinds) in counts.sorted(by: { $0.key < $1.key }) {
      print(
        "\(name): \(kinds.sorted { $0.value > $1.value }.prefix(20).map { "\($0.value) \($0.key)" }.joined(separator: ", "))"
      )
    }
    for (name, _) in SimulatedRedisCalls.allScripts { #expect(counts[name] != nil, "\(name) was not called") }
  }

  /// Microseconds until the next batch.
  private static func step(_ calls: inout SimulatedRedisCalls) -> Int64 {
    switch calls.below(40) {
    // Also a whole second: a key that lives for one second is in its last millisecond then.
    case 0..<8: 1_000_000
    case 8..<30: Int64(calls.below(900_000))
    case 30..<36: Int64(calls.below(12_000_000))
    case 36..<38: Int64(calls.below(120_000_000))
    case 38: Int64(calls.below(4_000_000_000))
    default: -Int64(calls.below(3_000_000))
    }
  }

  /// The kind of answer, for the table of counts.
  private static func kind(of reply: ArraySlice<UInt8>) -> String {
    switch reply.first {
    case UInt8(ascii: "+"), UInt8(ascii: "-"):
      readable(reply.dropLast(2)).split(separator: " ").prefix(2).map { word in
        Int(word).map { $0 == 0 ? "0" : $0 < 0 ? "-n" : "n" } ?? String(word)
      }.joined(separator: " ")
    case UInt8(ascii: ":") where reply.count == 4: readable(reply.dropLast(2))
    case UInt8(ascii: ":"): reply.dropFirst().first == UInt8(ascii: "-") ? ":-n" : ":n"
    case UInt8(ascii: "$"): reply.dropFirst().first == UInt8(ascii: "-") ? "none" : "text"
    case UInt8(ascii: "_"): "none"
    case UInt8(ascii: "*"): "list"
    default: "other"
    }
  }
}
