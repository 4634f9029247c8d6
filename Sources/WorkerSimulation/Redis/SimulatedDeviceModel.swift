/// Models of the scripts that read or change one device's state.
struct SimulatedDeviceModel {
  private typealias Lua = SimulatedLuaBytes

  private let call: SimulatedRedisScriptCall
  private let key: [UInt8]
  private let seconds: Double
  private let now: Double
  /// Arrival and run by rule name. Written in the order of Lua's table.
  private var rates = SimulatedLuaTable<(arrival: Double, run: UInt8)>()
  private var waiting = 0.0
  private var dead: Double?
  private var ends = 0.0
  private var elsewhere = 0.0
  private var row: [UInt8]

  static func tell(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var device = try SimulatedDeviceModel(call)
    let record = try call.argument(1)
    let name = Lua.sub(record, 3, 10)
    var isClaimed = false
    var next = Lua.find(device.row, name)
    while let at = next {
      if Lua.byte(device.row, at - 1) == 5, at + 16 <= device.row.count {
        isClaimed = true
        if Lua.unpack(device.row, at + 12, count: 4) <= device.seconds {
          var end: [UInt8] = []
          Lua.pack(device.seconds + 1, count: 4, to: &end)
          device.row.replaceSubrange(at + 11..<at + 15, with: end)
        }
      }
      next = Lua.find(device.row, name, from: at + 1)
    }
    if !isClaimed {
      var claim: [UInt8] = [5] + name + [0, 0, 0, 0]
      Lua.pack(device.seconds + 1, count: 4, to: &claim)
      device.row = claim + [0] + device.row
    }
    if Lua.find(device.row, record[...]) == nil { device.row += record }
    let mark = try call.number(3)
    if mark > 0 {
      device.dead = max(device.dead ?? 0, mark)
      device.ends = device.seconds + (try call.number(4))
    }
    try device.store(life: call.number(2))
    return .integer(0)
  }

  static func tighten(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var device = try SimulatedDeviceModel(call)
    let name = try call.argument(1)
    let known = device.rates[name] ?? (arrival: 0, run: 0)
    let arrival = max(known.arrival, device.now + (try call.number(2)))
    device.rates.set(name, (arrival: arrival, run: known.run &+ 1))
    try device.store(life: call.number(3) + ((arrival - device.now) / 1_000_000).rounded(.up))
    return .integer(0)
  }

  static func mark(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var device = try SimulatedDeviceModel(call)
    device.dead = max(device.dead ?? 0, try call.number(1))
    device.ends = device.seconds + (try call.number(2))
    try device.store(life: 0)
    return device.shown
  }

  static func show(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    try SimulatedDeviceModel(call).shown
  }

  static func forget(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    var device = try SimulatedDeviceModel(call)
    device.dead = nil
    if !device.rates.isEmpty || !device.row.isEmpty {
      try device.store(life: 0)
    } else {
      try call.call(.del, device.key, line: 41)
    }
    return .integer(0)
  }

  /// Decodes the device's value.
  private init(_ call: SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) {
    self.call = call
    key = try call.key(1)
    seconds = Double(call.seconds)
    now = Double(call.seconds * 1_000_000 + call.microseconds)
    var value = try call.text(.get, key, line: 4) ?? []
    if value.first == 161 { value.insert(209, at: 0) } else if value.first != 209 { value = [209] }
    var at = 2
    while let kind = Lua.byte(value, at), (1...4).contains(kind) {
      let count = kind == 1 || kind == 3 ? 12 : 4
      if at + count > value.count { break }
      switch kind {
      case 1:
        rates.set(
          Array(Lua.sub(value, at + 8, at + 11)),
          (arrival: Lua.unpack(value, at + 1, count: 7), run: value[at + 11]))
      case 2: waiting = Lua.unpack(value, at + 1, count: 4)
      case 3:
        ends = Lua.unpack(value, at + 9, count: 4)
        dead = ends <= seconds ? nil : Lua.unpackDouble(value, at + 1)
      default: elsewhere = Lua.unpack(value, at + 1, count: 4)
      }
      at += count + 1
    }
    row = Array(Lua.sub(value, at))
  }

  private var shown: SimulatedRedisReply {
    guard let dead else { return .null }
    return .array([
      .integer(SimulatedRedisNumber.luaInteger(dead)), .integer(SimulatedRedisNumber.luaInteger(ends - seconds)),
    ])
  }

  /// Encodes and stores the value.
  private func store(life: Double) throws(SimulatedRedisScriptFailure) {
    var life = life
    var value: [UInt8] = [209]
    for (name, rate) in rates.pairs {
      value.append(1)
      Lua.pack(rate.arrival, count: 7, to: &value)
      value += name
      value.append(rate.run)
    }
    if waiting > seconds {
      value.append(2)
      Lua.pack(waiting, count: 4, to: &value)
    }
    if let dead {
      value.append(3)
      Lua.packDouble(dead, to: &value)
      Lua.pack(ends, count: 4, to: &value)
      life = max(life, ends - seconds)
    }
    if elsewhere > seconds {
      value.append(4)
      Lua.pack(elsewhere, count: 4, to: &value)
    }
    life = max(life, Double(try call.integer(.ttl, key, line: 37)), 1)
    try call.call(.set, key, value + row, Array("EX".utf8), SimulatedRedisNumber.luaWhole(life), line: 38)
  }
}
