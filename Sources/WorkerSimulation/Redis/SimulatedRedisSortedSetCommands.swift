/// Commands on sorted sets.
extension SimulatedRedisKeyspace {
  private static let withScores = Array("WITHSCORES".utf8)
  private static let limit = Array("LIMIT".utf8)
  private static let addOptions = ["NX", "XX", "GT", "LT", "CH", "INCR"].map { Array($0.utf8) }

  /// From one score to another; either may be excluded.
  private struct ScoreRange {
    private var least = 0.0
    private var most = 0.0
    private var excludesLeast = false
    private var excludesMost = false

    /// nil: a bound is not a score.
    init?(_ least: [UInt8], _ most: [UInt8]) {
      guard let (first, excludesFirst) = Self.bound(least), let (last, excludesLast) = Self.bound(most) else {
        return nil
      }
      (self.least, excludesLeast) = (first, excludesFirst)
      (self.most, excludesMost) = (last, excludesLast)
    }

    private static func bound(_ word: [UInt8]) -> (Double, Bool)? {
      let isExcluded = word.first == UInt8(ascii: "(")
      let text = isExcluded ? Array(word.dropFirst()) : word
      switch String(decoding: text, as: UTF8.self).lowercased() {
      case "-inf": return (-.infinity, isExcluded)
      case "+inf", "inf": return (.infinity, isExcluded)
      default: return SimulatedRedisNumber.score(text).map { ($0, isExcluded) }
      }
    }

    func contains(_ score: Double) -> Bool {
      (excludesLeast ? score > least : score >= least) && (excludesMost ? score < most : score <= most)
    }
  }

  /// nil: not modelled.
  func runOnSortedSet(
    _ command: SimulatedRedisCommand, _ words: [[UInt8]], _ database: Int
  ) -> SimulatedRedisReply? {
    var scores: [Double] = []
    if command == .zadd {
      if Self.addOptions.contains(words[2].map(SimulatedRedis.capital)) { return nil }
      guard words.count % 2 == 0 else { return Self.syntaxError }
      for index in stride(from: 2, to: words.count, by: 2) {
        guard let score = SimulatedRedisNumber.score(words[index]) else {
          return .error("ERR value is not a valid float")
        }
        scores.append(score)
      }
    }
    var indices: (first: Int64, last: Int64) = (0, -1)
    if command == .zrange {
      guard let first = SimulatedRedisNumber.integer(words[2]), let last = SimulatedRedisNumber.integer(words[3]) else {
        return Self.notANumber
      }
      indices = (first, last)
    }
    var range: ScoreRange?
    if command == .zrangebyscore || command == .zremrangebyscore || command == .zcount {
      range = ScoreRange(words[2], words[3])
      if range == nil { return .error("ERR min or max is not a float") }
    }
    if command == .zrevrangebyscore {
      range = ScoreRange(words[3], words[2])
      if range == nil { return .error("ERR min or max is not a float") }
    }
    var hasScores = false
    var (offset, count): (Int64, Int64) = (0, -1)
    let isByScore = command == .zrangebyscore || command == .zrevrangebyscore
    if command == .zrange || isByScore {
      var options = words[4...]
      while let option = options.popFirst()?.map(SimulatedRedis.capital) {
        if option == Self.withScores {
          hasScores = true
        } else if option == Self.limit, isByScore, options.count >= 2 {
          guard let skipped = SimulatedRedisNumber.integer(options.removeFirst()),
            let taken = SimulatedRedisNumber.integer(options.removeFirst())
          else { return Self.notANumber }
          (offset, count) = (skipped, taken)
        } else {
          return nil
        }
      }
    }
    let key = words[1]
    var entry = entry(key, database)
    var set: SimulatedRedisSortedSet
    switch entry?.value {
    case .sortedSet(let known): set = known
    case nil: set = SimulatedRedisSortedSet()
    case .string, .hash, .set: return Self.wrongKind
    }
    func store() {
      entry = set.count == 0 ? nil : SimulatedRedisEntry(value: .sortedSet(set), endsAt: entry?.endsAt)
      write(entry, at: key, database)
    }
    func inRange() -> [(member: [UInt8], score: Double)] { set.listed.filter { range?.contains($0.score) ?? true } }
    func list(_ members: some Sequence<(member: [UInt8], score: Double)>) -> SimulatedRedisReply {
      hasScores
        ? .scored(members.flatMap { [.bulk($0.member), .double($0.score)] }) : .array(members.map { .bulk($0.member) })
    }
    switch command {
    case .zscore: return set[words[2]].map { .double($0) } ?? .null
    case .zcard: return .integer(Int64(set.count))
    case .zcount: return .integer(Int64(inRange().count))
    case .zadd:
      var count: Int64 = 0
      for (place, score) in scores.enumerated() where set.set(words[3 + place * 2], score) { count += 1 }
      store()
      return .integer(count)
    case .zrem:
      let count = words.dropFirst(2).count { set.remove($0) }
      if count > 0 { store() }
      return .integer(Int64(count))
    case .zremrangebyscore:
      let members = inRange()
      for (member, _) in members { _ = set.remove(member) }
      if !members.isEmpty { store() }
      return .integer(Int64(members.count))
    case .zrangebyscore, .zrevrangebyscore:
      if offset < 0 { return .array([]) }
      let found = command == .zrangebyscore ? inRange() : inRange().reversed()
      let members = found.dropFirst(Int(clamping: offset))
      return list(count < 0 ? members : members.prefix(Int(clamping: count)))
    case .zrange:
      let size = Int64(set.count)
      let first = max(0, indices.first < 0 ? indices.first + size : indices.first)
      let last = min(size - 1, indices.last < 0 ? indices.last + size : indices.last)
      return first > last ? .array([]) : list(set.listed[Int(first)...Int(last)])
    default: preconditionFailure("no command on sorted sets")
    }
  }
}
