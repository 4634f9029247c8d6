/// Models of the scripts that store the progress of audiences.
enum SimulatedExpansionModel {
  private typealias Number = SimulatedRedisNumber
  private static let one = [UInt8(ascii: "1")]

  private static func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

  /// The values of a hash's fields; nil: the field is missing.
  private static func fields(
    _ call: SimulatedRedisScriptCall, _ key: [UInt8], _ names: [String], line: Int
  ) throws(SimulatedRedisScriptFailure) -> [[UInt8]?] {
    switch call.attempt(.hmget, [key] + names.map(bytes)) {
    case .array(let values): return values.map { value in if case .bulk(let bytes) = value { bytes } else { nil } }
    case .error(let text): throw call.refusal(text, line: line)
    default: throw .unmodelled("HMGET gave no list")
    }
  }

  private static func set(
    _ call: SimulatedRedisScriptCall, _ key: [UInt8], _ values: [(String, [UInt8])], line: Int
  ) throws(SimulatedRedisScriptFailure) {
    let words = values.flatMap { [bytes($0.0), $0.1] }
    if case .error(let text) = call.attempt(.hset, [key] + words) { throw call.refusal(text, line: line) }
  }

  private static func number(_ text: [UInt8]?) throws(SimulatedRedisScriptFailure) -> Double {
    guard let text else { throw .unmodelled("arithmetic on what is not there") }
    return try SimulatedRedisScriptCall.number(text)
  }

  /// A counted number as the script returns it.
  private static func digits(_ number: Double) -> [UInt8] { Number.luaWhole(number) }

  // MARK: - Steps

  static func open(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (key, body) = (try call.key(1), try call.key(2))
    let step = try call.number(1)
    if try call.integer(.exists, key, line: 2) == 0 { try begin(call, key, body, step) }
    try call.call(.expire, key, call.argument(7), line: 10)
    try call.call(.expire, body, call.argument(7), line: 11)
    let known = try fields(
      call, key,
      [
        "phase", "fixed", "published", "ordinal", "pages", "settled", "first", "devices", "app", "environment",
      ], line: 12)
    let (app, environment) = (try call.argument(8), try call.argument(9))
    if known[8] != app || known[9] != environment {
      return .array([.bulk(bytes("taken"))])
    }
    let phase = known[0] ?? []
    var (fixed, ordinal) = (try number(known[1]), known[3] ?? [])
    var (pages, settled) = (try number(known[4]), try number(known[5]))
    var (first, devices) = (try number(known[6]), try number(known[7]))
    if phase == bytes("completed") { return .array([.bulk(bytes("done"))]) }
    if try step < number(known[2]) || step == fixed && ordinal.isEmpty { return .array([.bulk(bytes("done"))]) }
    try set(call, key, [("published", call.argument(1))], line: 18)
    if step > fixed {
      // Redis lost the earlier steps: the step's message has newer values.
      let later = try call.number(3)
      if later > pages {
        settled += later - pages
        pages = later
      }
      (fixed, ordinal, first) = (step, try call.argument(2), pages)
      devices = max(devices, try call.number(4))
      try set(
        call, key,
        [
          ("fixed", digits(fixed)), ("ordinal", ordinal), ("pages", digits(pages)), ("settled", digits(settled)),
          ("first", digits(first)), ("devices", digits(devices)), ("forgotten", one),
        ], line: 26)
    }
    if step == fixed {
      if phase == bytes("paused") { return .array([.bulk(phase)]) }
      if phase == bytes("running") {
        if try pages - settled >= call.number(5) { return .array([.bulk(bytes("full"))]) }
        return .array([.bulk(bytes("evaluate")), .bulk(ordinal)])
      }
      (first, ordinal) = (pages, [])
      try set(call, key, [("fixed", digits(fixed + 1)), ("ordinal", []), ("first", digits(first))], line: 36)
    }
    return try pagesToPublish(call, key, first, pages, ordinal, devices, settled, now: call.argument(6), line: 41)
  }

  private static func begin(
    _ call: SimulatedRedisScriptCall, _ key: [UInt8], _ body: [UInt8], _ step: Double
  ) throws(SimulatedRedisScriptFailure) {
    let (cursor, pages) = (try call.argument(1), try call.argument(3))
    try set(
      call, key,
      [
        ("phase", bytes("running")), ("fixed", cursor), ("published", cursor), ("ordinal", call.argument(2)),
        ("pages", pages), ("settled", pages), ("first", pages), ("devices", call.argument(4)),
        ("begun", call.argument(6)), ("app", call.argument(8)), ("environment", call.argument(9)),
      ], line: 3)
    for at in stride(from: 10, through: call.arguments.count - 2, by: 2) {
      try call.call(.hset, key, call.argument(at), call.argument(at + 1), line: 6)
    }
    if step > 0 { try set(call, key, [("forgotten", one)], line: 7) }
    try call.call(.set, body, call.argument(call.arguments.count), line: 8)
  }

  private static func pagesToPublish(
    _ call: SimulatedRedisScriptCall, _ key: [UInt8], _ first: Double, _ pages: Double, _ ordinal: [UInt8],
    _ devices: Double, _ settled: Double, now: [UInt8], line: Int
  ) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let isComplete = ordinal.isEmpty && pages == settled
    if isComplete { try call.call(.hsetnx, key, bytes("ended"), now, line: line) }
    return .array([
      .bulk(bytes("publish")), .bulk(digits(first)), .bulk(digits(pages)), .bulk(ordinal), .bulk(digits(devices)),
      .integer(isComplete ? 1 : 0),
    ])
  }

  static func fix(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    let known = try fields(call, key, ["phase", "fixed", "pages", "settled", "devices"], line: 2)
    let step = try call.argument(1)
    if known[0] != bytes("running") || known[1] != step { return .array([.bulk(bytes("again"))]) }
    let first = try number(known[2])
    var (pages, devices) = (first, try number(known[4]) + call.number(3))
    for at in stride(from: 7, through: call.arguments.count, by: 2) {
      let count = Int(try call.number(at))
      try call.call(
        .hset, call.key(2), digits(pages), Array(repeating: UInt8(ascii: "-"), count: count), line: 7)
      try call.call(.hset, call.key(3), digits(pages), call.argument(at + 1), line: 8)
      pages += 1
      devices += Double(count)
    }
    for key in 2...3 { try call.call(.expire, call.key(key), call.argument(6), line: 10 + key) }
    let next = try call.argument(2)
    try set(
      call, key,
      [
        ("fixed", digits(call.number(1) + 1)), ("ordinal", next), ("first", digits(first)), ("pages", digits(pages)),
        ("devices", digits(devices)), ("of", call.argument(4)),
      ], line: 14)
    return try pagesToPublish(
      call, key, first, pages, next, devices, number(known[3]), now: call.argument(5), line: 19)
  }

  static func published(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let known = try fields(call, call.key(1), ["fixed", "published"], line: 1)
    guard let fixed = known[0] else { return .integer(0) }
    let step = try call.number(1)
    if try step < SimulatedRedisScriptCall.number(fixed), try step >= number(known[1]) {
      try set(call, call.key(1), [("published", digits(step + 1))], line: 4)
    }
    return .integer(0)
  }

  // MARK: - Ends

  static func settle(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let (key, page) = (try call.key(1), try call.argument(1))
    guard let phase = try call.text(.hget, key, bytes("phase"), line: 2), phase != bytes("completed") else {
      return .integer(0)
    }
    let (position, letters) = (Int(try call.number(2)), try call.argument(3))
    if var ends = try call.text(.hget, call.key(2), page, line: 4), try isOfPage(call, page, position, letters.count) {
      let open = UInt8(ascii: "-")
      var counts = SimulatedLuaTable<Int64>()
      for (index, letter) in letters.enumerated() where letter != open {
        guard ends.indices.contains(position + index), ends[position + index] == open else { continue }
        ends[position + index] = letter
        counts.set([letter], (counts[[letter]] ?? 0) + 1)
      }
      for (letter, count) in counts.pairs {
        try call.call(.hincrby, key, bytes("n:") + letter, Number.text(count), line: 25)
      }
      if ends.contains(open) {
        try call.call(.hset, call.key(2), page, ends, line: 28)
      } else {
        try call.call(.hdel, call.key(2), page, line: 30)
        try call.call(.hdel, call.key(3), page, line: 31)
        try call.call(.hincrby, key, bytes("settled"), one, line: 32)
      }
      try call.call(.expire, key, call.argument(5), line: 34)
    }
    let state = try fields(call, key, ["ordinal", "pages", "settled"], line: 36)
    guard state[0] == [], state[1] == state[2] else { return .integer(0) }
    try call.call(.hsetnx, key, bytes("ended"), call.argument(4), line: 38)
    return .integer(1)
  }

  /// Whether the page has these devices at these positions, or does not say which ones it has.
  private static func isOfPage(
    _ call: SimulatedRedisScriptCall, _ page: [UInt8], _ position: Int, _ count: Int
  ) throws(SimulatedRedisScriptFailure) -> Bool {
    let told = try call.argument(6)
    if told.isEmpty { return true }
    let stored = String(decoding: try call.text(.hget, call.key(3), page, line: 6) ?? [], as: UTF8.self)
    guard let match = stored.firstMatch(of: /([0-9]+):([0-9,]*)$/) else { return true }
    let ordinals = match.2.split(separator: ",").dropFirst(position).prefix(count)
    return told == Array("\(match.1):\(ordinals.joined(separator: ","))".utf8)
  }

  static func command(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    guard let phase = try call.text(.hget, key, bytes("phase"), line: 2) else { return .array([]) }
    let order = String(decoding: try call.argument(1), as: UTF8.self)
    var wanted = phase
    switch String(decoding: phase, as: UTF8.self) {
    case "running", "paused":
      let phases = ["pause": "paused", "resume": "running", "cancel": "cancelled"]
      guard let next = phases[order] else { throw .unmodelled("there is no command \(order)") }
      wanted = bytes(next)
    case "completed": return .array([.bulk(phase), .bulk(phase), .integer(0)])
    case _ where order != "cancel": return .array([.bulk(phase), .bulk(phase), .integer(0)])
    default: break
    }
    try set(call, key, [("phase", wanted)], line: 10)
    if wanted == bytes("cancelled") { try set(call, key, [("cancelled", one)], line: 11) }
    return .array([.bulk(phase), .bulk(wanted), .integer(1)])
  }

  static func withdraw(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    if try call.integer(.exists, key, line: 2) == 0 {
      let zero = bytes("0")
      let now = try call.argument(2)
      try set(
        call, key,
        [
          ("phase", bytes("completed")), ("withdrawn", call.argument(1)), ("fixed", zero), ("published", zero),
          ("ordinal", []), ("pages", zero), ("settled", zero), ("first", zero), ("devices", zero), ("begun", now),
          ("ended", now), ("app", call.argument(4)), ("environment", call.argument(5)),
        ], line: 3)
      try call.call(.expire, key, call.argument(3), line: 6)
    }
    return try fields(call, key, ["withdrawn"], line: 8)[0].map { .bulk($0) } ?? .null
  }

  static func repeatBroadcast(
    _ call: SimulatedRedisScriptCall
  ) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    if try call.integer(.exists, key, line: 1) == 0 { return .integer(0) }
    return .integer(try call.integer(.hsetnx, key, bytes("broadcast"), one, line: 2))
  }

  static func endEarly(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    if try call.integer(.exists, key, line: 1) == 1 { try set(call, key, [("early", call.argument(1))], line: 1) }
    return .integer(0)
  }

  static func finish(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let key = try call.key(1)
    try call.call(.del, call.key(2), call.key(3), call.key(4), line: 1)
    if try call.integer(.exists, key, line: 2) == 0 { return .integer(0) }
    try call.call(.hsetnx, key, bytes("ended"), call.argument(2), line: 3)
    try set(call, key, [("phase", bytes("completed"))], line: 4)
    try call.call(.expire, key, call.argument(1), line: 5)
    return .integer(1)
  }
}
