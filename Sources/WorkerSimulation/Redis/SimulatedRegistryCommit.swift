/// Model of the script that changes the registry of devices: each change is atomic, and guarded by what was read before.
struct SimulatedRegistryCommit {
  private struct Write {
    let command: SimulatedRedisCommand
    let words: [[UInt8]]
  }

  private struct Place: Hashable {
    let key: [UInt8]
    let field: [UInt8]
  }

  /// A chunk that lost members.
  private struct Lost {
    let key: [UInt8]
    let bucket: [UInt8]
    let word: [UInt8]
    let digits: [UInt8]
  }

  private let call: SimulatedRedisScriptCall
  private let keys: SimulatedRegistryKeys
  private var at = 0
  private var writes: [Write] = []
  private var codes: [Double] = []
  private var touched: Set<Place> = []
  /// Sets that guards read.
  private var seen: [Place: [UInt8]] = [:]
  private var taken: [[UInt8]] = []
  private var lost: [Lost] = []

  private static let smallMaximum = 15
  private static let inSeconds = Array("EX".utf8)

  static func run(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var model = SimulatedRegistryCommit(call: call, keys: try SimulatedRegistryKeys(call))
    return try model.play()
  }

  private init(call: SimulatedRedisScriptCall, keys: SimulatedRegistryKeys) {
    self.call = call
    self.keys = keys
  }

  private mutating func take() throws(SimulatedRedisScriptFailure) -> [UInt8] {
    at += 1
    return try call.argument(at)
  }

  private mutating func number() throws(SimulatedRedisScriptFailure) -> Double {
    try SimulatedRedisScriptCall.number(take())
  }

  private mutating func count() throws(SimulatedRedisScriptFailure) -> Int { Int(try number()) }

  private mutating func write(_ command: SimulatedRedisCommand, _ words: [UInt8]...) {
    writes.append(Write(command: command, words: words))
  }

  private mutating func play() throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (marked, wordCount, versionCount) = (try count(), try count(), try count())
    let times = try forgetTimes(marked)
    if let reply = try addWords(wordCount) { return reply }
    if versionCount > 0 {
      var words = [keys.osVersions]
      for _ in 0..<versionCount { words.append(try take()) }
      writes.append(Write(command: .sadd, words: words))
    }
    for _ in 0..<(try count()) { try change(times) }
    if !taken.isEmpty { writes.append(Write(command: .zrem, words: [keys.free] + taken)) }
    while at < call.arguments.count { try changeSet() }
    for write in writes {
      if case .error(let text) = call.attempt(write.command, write.words) { throw call.refusal(text, line: 220) }
    }
    for chunk in lost { try shrink(chunk) }
    return .array(codes.map { .integer(SimulatedRedisNumber.luaInteger($0)) })
  }

  private mutating func forgetTimes(_ count: Int) throws(SimulatedRedisScriptFailure) -> [Double?] {
    guard count > 0 else { return [] }
    var names: [[UInt8]] = []
    for _ in 0..<count { names.append(keys.named(try take())) }
    var times: [Double?] = []
    switch call.attempt(.mget, names) {
    case .array(let replies):
      for reply in replies {
        if case .bulk(let text) = reply {
          times.append(try SimulatedRedisScriptCall.number(text))
        } else {
          times.append(nil)
        }
      }
    case .error(let text): throw call.refusal(text, line: 14)
    default: throw .unmodelled("MGET gave no list")
    }
    return times
  }

  /// A reply ends the call: another word has this number.
  private mutating func addWords(_ count: Int) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply? {
    var added: [[UInt8]] = [keys.words]
    for _ in 0..<count {
      let (number, text) = (try take(), try take())
      let known = try call.text(.hget, keys.words, number, line: 19)
      if let known, known != text { return .bulk(number) }
      if known == nil { added += [number, text] }
    }
    guard added.count > 1 else { return nil }
    if try call.integer(.hlen, keys.words, line: 28) > 60_000 { throw .unmodelled("the table of words is full") }
    writes.append(Write(command: .hset, words: added))
    return nil
  }

  // MARK: - A device's change

  private mutating func change(_ times: [Double?]) throws(SimulatedRedisScriptFailure) {
    let (forgotten, guards, records, marks) = (try count(), try count(), try count(), try count())
    var code = 1.0
    var names: [Place] = []
    let (firstWrite, firstTaken) = (writes.count, taken.count)
    for _ in 0..<forgotten {
      let time = times[try count() - 1]
      let limit = try number()
      if let time, time >= limit { code = min(code, -time) }
    }
    for _ in 0..<guards {
      let (bucket, word, value) = (keys.bucket(try take()), try take(), try take())
      let place = Place(key: bucket, field: word)
      let known: [UInt8]
      if let cached = seen[place] {
        known = cached
      } else {
        known = try call.text(.hget, bucket, word, line: 47) ?? []
      }
      seen[place] = known
      if code == 1, touched.contains(place) || known != value { code = 0 }
      names.append(place)
    }
    for _ in 0..<records { try record(&code, &names) }
    for _ in 0..<marks {
      let (key, time, life) = (keys.named(try take()), try take(), try take())
      let known = try call.text(.get, key, line: 69)
      let isLater: Bool
      if let known {
        isLater = try SimulatedRedisScriptCall.number(known) < SimulatedRedisScriptCall.number(time)
      } else {
        isLater = true
      }
      if isLater { write(.set, key, time, SimulatedRegistryCommit.inSeconds, life) }
    }
    if code == 1 {
      touched.formUnion(names)
    } else {
      writes.removeSubrange(firstWrite...)
      taken.removeSubrange(firstTaken...)
    }
    codes.append(code)
  }

  private mutating func record(_ code: inout Double, _ names: inout [Place]) throws(SimulatedRedisScriptFailure) {
    let (group, field, old, new) = (try take(), try take(), try take(), try take())
    let key = keys.group(group)
    let number = try SimulatedRedisScriptCall.number(group) * 64 + SimulatedRedisScriptCall.number(field)
    let ordinal = SimulatedRedisNumber.luaWhole(number)
    let place = Place(key: key, field: field)
    if code == 1 {
      if touched.contains(place) {
        code = 0
      } else if try call.text(.hget, key, field, line: 54) ?? [] != old {
        code = 0
      }
    }
    names.append(place)
    if old.isEmpty {
      if code == 1, try call.text(.zscore, keys.free, ordinal, line: 57) == nil { code = 0 }
      taken.append(ordinal)
    }
    if new.isEmpty {
      write(.hdel, key, field)
      write(.zadd, keys.free, SimulatedRedisNumber.text(call.seconds), ordinal)
    } else {
      write(.hset, key, field, new)
    }
  }

  // MARK: - Sets

  private mutating func changeSet() throws(SimulatedRedisScriptFailure) {
    let (own, word, digits) = (try take(), try take(), try take())
    let bucket = keys.bucket(own)
    var chunks: [(digits: [UInt8], changes: [(place: Int, enters: Bool)])] = []
    for _ in 0..<(try count()) {
      let (chunk, packed) = (try take(), try take())
      var changes: [(place: Int, enters: Bool)] = []
      for start in stride(from: 0, to: packed.count - 3, by: 4) {
        let index = Int(packed[start]) - 1
        guard codes.indices.contains(index), codes[index] == 1 else { continue }
        changes.append((Int(packed[start + 2]) | Int(packed[start + 3]) << 8, packed[start + 1] == 1))
      }
      chunks.append((chunk, changes))
    }
    let place = Place(key: bucket, field: word)
    let known: [UInt8]
    if let cached = seen[place] {
      known = cached
    } else if let first = chunks.first, first.changes.count > 1,
      try call.text(.get, keys.chunk(digits, first.digits), line: 201)?.isEmpty == false
    {
      known = SimulatedRegistryKeys.large
    } else {
      known = try call.text(.hget, bucket, word, line: 202) ?? []
    }
    if known == SimulatedRegistryKeys.large {
      for (chunk, changes) in chunks where !changes.isEmpty {
        try store(changes, Lost(key: keys.chunk(digits, chunk), bucket: bucket, word: word, digits: digits))
      }
    } else {
      try changeSmall(known, chunks, bucket: bucket, word: word, digits: digits)
    }
  }

  private mutating func changeSmall(
    _ known: [UInt8], _ chunks: [(digits: [UInt8], changes: [(place: Int, enters: Bool)])], bucket: [UInt8],
    word: [UInt8], digits: [UInt8]
  ) throws(SimulatedRedisScriptFailure) {
    guard chunks.contains(where: { !$0.changes.isEmpty }) else { return }
    var members = Set(
      stride(from: 0, to: known.count - 3, by: 4).map { Int(SimulatedRegistryKeys.ordinal(known, $0)) })
    let size = Int(SimulatedRegistryKeys.chunkOrdinals)
    for (chunk, changes) in chunks {
      let base = Int(try SimulatedRedisScriptCall.number(chunk)) * size
      for change in changes {
        if change.enters { members.insert(base + change.place) } else { members.remove(base + change.place) }
      }
    }
    if members.isEmpty {
      write(.hdel, bucket, word)
    } else if members.count <= SimulatedRegistryCommit.smallMaximum {
      let bytes = members.sorted().flatMap { ordinal in
        (0..<4).map { UInt8(truncatingIfNeeded: ordinal >> ($0 * 8)) }
      }
      write(.hset, bucket, word, bytes)
    } else {
      for (chunk, ordinals) in Dictionary(grouping: members.sorted(), by: { $0 / size }).sorted(by: { $0.key < $1.key })
      {
        let key = keys.chunk(digits, SimulatedRedisNumber.text(Int64(chunk)))
        try store(
          ordinals.map { ($0 % size, true) }, Lost(key: key, bucket: bucket, word: word, digits: digits))
      }
      write(.hset, bucket, word, SimulatedRegistryKeys.large)
    }
  }

  private mutating func store(
    _ changes: [(place: Int, enters: Bool)], _ chunk: Lost
  ) throws(SimulatedRedisScriptFailure) {
    let value = try call.text(.get, chunk.key, line: 112) ?? []
    var set = SimulatedOrdinalSet(value)
    for change in changes { set.set(change.place, isMember: change.enters) }
    let hasLost: Bool
    if set.isBitmap {
      hasLost = changes.contains { !$0.enters }
      write(.set, chunk.key, set.value)
    } else {
      set.grow()
      hasLost = set.places.isEmpty
      if set.isBitmap || hasLost { write(.del, chunk.key) }
      if !hasLost { write(.set, chunk.key, set.value) }
    }
    if hasLost { lost.append(chunk) }
  }

  /// Turns a small bitmap into a list, and removes a set without members.
  private func shrink(_ chunk: Lost) throws(SimulatedRedisScriptFailure) {
    var set = SimulatedOrdinalSet(try call.text(.get, chunk.key, line: 224) ?? [])
    if set.isBitmap {
      set.shrink()
      if set.places.isEmpty {
        try call.call(.del, chunk.key, line: 227)
      } else if !set.isBitmap {
        try call.call(.set, chunk.key, set.value, line: 243)
      }
    }
    var isEmpty = try call.integer(.exists, chunk.key, line: 247) == 0
    var number = try keys.lastChunk(call, line: 248)
    while isEmpty, number >= 0 {
      let reply = call.attempt(.exists, [keys.chunk(chunk.digits, SimulatedRedisNumber.text(number))])
      isEmpty = reply == .integer(0)
      number -= 1
    }
    if isEmpty { try call.call(.hdel, chunk.bucket, chunk.word, line: 253) }
  }
}
