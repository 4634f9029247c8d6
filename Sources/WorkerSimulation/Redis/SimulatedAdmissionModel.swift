/// Model of the admission script.
///
/// One value for each call: rules and settings are read once, and each ask sees the writes of earlier ones.
struct SimulatedAdmissionModel {
  private typealias Lua = SimulatedLuaBytes
  private typealias Head = SimulatedDeviceHead

  private struct Rule {
    var interval = 0.0
    var tolerance = 0.0
    var name: ArraySlice<UInt8> = []
    var first: [UInt8] = []
    var life: [UInt8] = []
  }

  /// An answer of the script, before it may become "repeated".
  private enum Answer {
    case number(Double)
    case status([UInt8])
    case outcome([UInt8])
    case error([UInt8])
  }

  /// What is stored about a job.
  private struct Known {
    var answer: [UInt8]?
    var claim: ArraySlice<UInt8>?
    var ends = 0.0
    var run: UInt8 = 0
  }

  private let call: SimulatedRedisScriptCall
  private let settings: [UInt8]
  private let delayed: Double
  private let remembered: Double
  private let promised: Double
  private var kept: Double { remembered + promised }
  private let seconds: Double
  private let now: Double
  private var deadline: [UInt8] = []
  private var rules: [UInt8: Rule] = [:]
  private var written: [[UInt8]: [UInt8]] = [:]

  static func run(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var model = try SimulatedAdmissionModel(call)
    return try model.play()
  }

  private init(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) {
    self.call = call
    settings = try call.argument(call.keys.count + 1)
    guard settings.count >= 24, !call.keys.isEmpty else { throw .unmodelled("no settings, or no key") }
    delayed = Lua.unpackDouble(settings, 1)
    remembered = Lua.unpackDouble(settings, 9)
    promised = Lua.unpackDouble(settings, 17)
    seconds = Double(call.seconds)
    now = Double(call.seconds * 1_000_000 + call.microseconds)
    Lua.pack(seconds + promised, count: 4, to: &deadline)
  }

  private mutating func play() throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var values: [[UInt8]?]
    if call.keys.count > 1 {
      values = []
      switch call.attempt(.mget, call.keys) {
      case .array(let replies):
        for reply in replies { if case .bulk(let bytes) = reply { values.append(bytes) } else { values.append(nil) } }
      case .error(let text):
        throw call.refusal(text, line: 18)
      case .status, .integer, .bulk, .null, .nullArray, .map, .members, .double, .verbatim, .scored:
        throw .unmodelled("MGET gave no list")
      }
    } else {
      values = [get(call.keys[0])]
    }
    var answers: [SimulatedRedisReply] = []
    var isAllProceeding = true
    for index in call.keys.indices {
      let key = call.keys[index]
      let answer = try admit(key, call.arguments[index], written[key] ?? values[index])
      switch answer {
      case .number(let number):
        if number != 0 { isAllProceeding = false }
        answers.append(.integer(number == 0 ? 0 : SimulatedRedisNumber.luaInteger(number)))
      case .status(let text): answers.append(.status(text))
      case .outcome(let bytes): answers.append(.bulk(bytes))
      case .error(let text): answers.append(.error(text))
      }
      if case .number = answer { continue }
      isAllProceeding = false
    }
    return isAllProceeding ? .integer(0) : .array(answers)
  }

  private func get(_ key: [UInt8]) -> [UInt8]? {
    if case .bulk(let bytes) = call.attempt(.get, [key]) { bytes } else { nil }
  }

  private mutating func rule(_ number: UInt8) throws(SimulatedRedisScriptFailure) -> Rule {
    if let rule = rules[number] { return rule }
    var rule = Rule()
    if number < 254 {
      let at = 25 + Int(number) * 20
      guard settings.count >= at + 15 else { throw .unmodelled("there is no rule \(number)") }
      rule.interval = Lua.unpackDouble(settings, at)
      rule.tolerance = Lua.unpackDouble(settings, at + 8)
      rule.name = Lua.sub(settings, at + 16, at + 19)
    }
    rule.first = [209]
    if rule.interval > 0 {
      rule.first.append(1)
      Lua.pack(now + rule.interval, count: 7, to: &rule.first)
      rule.first += rule.name
      rule.first.append(0)
    }
    rule.first.append(5)
    rule.life = SimulatedRedisNumber.luaWhole(kept + (rule.interval / 1_000_000).rounded(.up))
    rules[number] = rule
    return rule
  }

  /// The job's answer and claim. A claim that expired long ago hides both.
  private func look(_ value: [UInt8], _ name: ArraySlice<UInt8>, from: Int) -> Known {
    var known = Known()
    var next = Lua.find(value, name, from: from)
    while let at = next {
      if let place = Head.record(value, nameAt: at) {
        if place.isClaim {
          known.claim = Lua.sub(value, at + 8, at + 11)
          known.ends = Lua.unpack(value, at + 12, count: 4)
          known.run = value[at + 15]
        } else {
          known.answer = Array(Lua.sub(value, at + 8, place.stop))
        }
      }
      next = Lua.find(value, name, from: at + 1)
    }
    return known.claim != nil && known.ends + remembered <= seconds ? Known() : known
  }

  private func without(_ given: [UInt8], _ name: ArraySlice<UInt8>, from row: Int) -> [UInt8] {
    var value = given
    var next = Lua.find(value, name, from: row)
    while let at = next {
      let place = Head.record(value, nameAt: at)
      if let place { value.removeSubrange(place.start - 1..<place.stop) }
      next = Lua.find(value, name, from: place?.start ?? at + 1)
    }
    return value
  }

  /// Moves older jobs to keys of their own.
  private func shortened(_ device: [UInt8], _ given: [UInt8]) -> [UInt8] {
    let head = Head(given, rate: [])
    var value = given
    var at = head.row
    var moved = 0
    var untilWhen = head.elsewhere
    var left: [UInt8] = []
    while value.count - at > 256, moved < 16 {
      let kind = Lua.byte(value, at)
      var stop = at
      var record: [UInt8]?
      var name: ArraySlice<UInt8> = []
      var its = 0.0
      if kind == 5, at + 17 <= value.count {
        stop = at + 17
        name = ArraySlice(Array(Lua.sub(value, at + 1, at + 8)))
        its = Lua.unpack(value, at + 13, count: 4) + remembered
        var found = Array(Lua.sub(value, at, stop))
        var next = Lua.find(value, name, from: stop + 1)
        while let later = next {
          let place = Head.record(value, nameAt: later)
          if let place {
            found = Array(Lua.sub(value, place.start, place.stop))
            value.removeSubrange(place.start - 1..<place.stop)
          }
          next = Lua.find(value, name, from: place?.start ?? later + 1)
        }
        record = found
        if found[0] == 5, its - remembered > seconds {
          record = nil
          left += found
        }
      } else if kind == 161, Head.record(value, nameAt: at + 2) != nil {
        stop = at + 1 + Int(value[at])
        name = ArraySlice(Array(Lua.sub(value, at + 2, at + 9)))
        its = seconds + remembered
        record = Array(Lua.sub(value, at, stop))
      }
      if let record, its > seconds {
        let key = device + [58, 100, 58] + Lua.hex(name)
        let life = SimulatedRedisNumber.luaWhole(its - seconds)
        if case .error = call.attempt(.set, [key, record, Self.inSeconds, life]) { return given }
        untilWhen = max(untilWhen, its)
      }
      at = stop + 1
      moved += 1
    }
    var result = Array(Lua.sub(value, 1, head.elsewhereFirst - 1))
    result += Lua.sub(value, head.elsewhereLast + 1, head.row - 1)
    result.append(4)
    Lua.pack(untilWhen, count: 4, to: &result)
    result += left
    result += Lua.sub(value, at)
    return result
  }

  private static let inSeconds = Array("EX".utf8)

  private func life(_ head: Head) -> [UInt8] {
    let rated = kept + (max(0, head.latest - now) / 1_000_000).rounded(.up)
    return SimulatedRedisNumber.luaWhole(max(rated, head.deadEnds - seconds, head.waiting - seconds))
  }

  private mutating func write(_ device: [UInt8], _ value: [UInt8], _ life: [UInt8]) -> Answer {
    if case .error(let text) = call.attempt(.set, [device, value, Self.inSeconds, life]) { return .error(text) }
    written[device] = value
    return .number(0)
  }

  /// Charges the rate and stores a claim.
  private mutating func charge(
    _ device: [UInt8], _ ask: [UInt8], _ given: [UInt8], _ rule: Rule, _ givenHead: Head, hasRecords: Bool,
    known: Known,
    isOwn: Bool
  ) -> Answer {
    var value = given
    var head = givenHead
    var collapsed: [UInt8]?
    var received = 0.0
    var newest: Double?
    let whose = [32] + Lua.hex(Lua.sub(ask, 2, 9))
    if !isOwn, ask.count > 21, ask[21] != 0 {
      let key = device + [58, 99] + Lua.sub(ask, 22, 29)
      collapsed = key
      received = Lua.unpackDouble(ask, 30)
      let known = head.waiting > seconds ? get(key) : nil
      newest = known.flatMap { SimulatedRedisNumber.luaNumber(Array($0.prefix { (48...57).contains($0) })) }
      if let known, let newest, newest > received, Array(known.suffix(17)) != whose, ask.count > 37, ask[41] % 2 == 1 {
        return .status(Array("superseded".utf8))
      }
    }
    let ahead = max(head.arrival - now, 0)
    let isPaid = isOwn || ahead > 0 && known.claim != nil && known.run == head.run
    let wait = isPaid ? 0 : ahead - rule.tolerance
    if let collapsed, wait > 0 || newest != nil, received > newest ?? 0 {
      _ = call.attempt(
        .set,
        [
          collapsed, SimulatedRedisNumber.luaWhole(received) + whose, Self.inSeconds,
          SimulatedRedisNumber.luaWhole(delayed),
        ])
      if head.waiting < seconds + delayed {
        var longer: [UInt8] = [209, 2]
        Lua.pack(seconds + 2 * delayed, count: 4, to: &longer)
        value.removeSubrange(head.waitingFirst - 1..<head.waitingLast)
        value.replaceSubrange(0..<1, with: longer)
        head = Head(value, rate: rule.name)
        _ = write(device, value, life(head))
      }
    }
    if wait > 0 { return .number((wait / 1000).rounded(.up)) }
    if hasRecords { value = without(value, Lua.sub(ask, 2, 9), from: head.row) }
    if rule.interval > 0, !isPaid {
      if ahead == 0, head.last > head.first { head.run &+= 1 }
      let its = now + ahead + rule.interval
      head.latest = max(head.latest, its)
      var rate: [UInt8] = [1]
      Lua.pack(its, count: 7, to: &rate)
      rate += rule.name
      rate.append(head.run)
      value.replaceSubrange(head.first - 1..<head.last, with: rate)
    }
    value.append(5)
    value += Lua.sub(ask, 2, 13)
    value += deadline
    value.append(isOwn ? known.run : head.run)
    return write(device, value.count > 512 ? shortened(device, value) : value, life(head))
  }

  private mutating func admit(
    _ device: [UInt8], _ ask: [UInt8], _ found: [UInt8]?
  ) throws(SimulatedRedisScriptFailure) -> Answer {
    guard ask.count >= 21 else { throw .unmodelled("an ask of \(ask.count) bytes") }
    let number = ask[0]
    let rule = try rule(number)
    var stored: [UInt8]?
    switch found?.first {
    case 209: stored = found
    case 161: stored = [209] + (found ?? [])
    case nil, .some: break
    }
    if stored == nil, ask.count < 42, number != 254 {
      return write(device, rule.first + Lua.sub(ask, 2, 13) + deadline + [0], rule.life)
    }
    var value = stored ?? [209]
    var head = Head(value, rate: rule.name)
    let name = Lua.sub(ask, 2, 9)
    let hasRecords = Lua.find(value, name, from: head.row) != nil
    var known = hasRecords ? look(value, name, from: head.row) : Known()
    if head.elsewhere > seconds, known.answer == nil, known.claim == nil,
      let other = get(device + [58, 100, 58] + Lua.hex(name))
    {
      known = look(other, name, from: 1)
    }
    if let answer = known.answer { return .outcome(answer) }
    let before = ask.count > 37 ? Lua.sub(ask, 38, 41) : [0, 0, 0, 0]
    let how = ask.count > 37 ? ask[41] : 0
    var isRepeated = false
    var isOwn = false
    if let claim = known.claim {
      isOwn = claim == Lua.sub(ask, 10, 13)
      if claim != before, !isOwn {
        if known.ends > seconds, how < 2 || how < 4 && seconds + promised - known.ends < 2 {
          let left = (known.ends * 1000 - now / 1000).rounded(.up)
          return .status(Array("claimed ".utf8) + SimulatedRedisNumber.luaWhole(left))
        }
        isRepeated = true
      }
    } else {
      isRepeated = how % 2 == 1 && before != [0, 0, 0, 0]
    }
    var answer: Answer?
    if let dead = head.dead, head.deadEnds > seconds {
      if Lua.unpackDouble(ask, 14) <= dead {
        answer = .number(-dead)
      } else {
        value.removeSubrange(head.deadFirst - 1..<head.deadLast)
        head = Head(value, rate: rule.name)
        _ = write(device, value, life(head))
      }
    }
    let given: Answer
    if let answer {
      given = answer
    } else if number == 254 {
      given = .number(0)
    } else {
      given = charge(device, ask, value, rule, head, hasRecords: hasRecords, known: known, isOwn: isOwn)
    }
    guard isRepeated else { return given }
    let repeated = Array("repeated ".utf8)
    switch given {
    case .number(let number): return .status(repeated + SimulatedRedisNumber.luaWhole(number))
    case .status(let text): return .status(repeated + text)
    case .outcome, .error: return given
    }
  }
}
