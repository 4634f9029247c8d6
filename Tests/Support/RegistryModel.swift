package import PushCore

/// What a registry of one app's devices must hold, as plainly as it can be said: dictionaries and lists of all that came, and no code of the
/// registry's own.
package struct RegistryModel {
  /// What all registrations said about a field, in any order.
  package struct Field<Value: Hashable & Sendable> {
    var changes: [(value: Value?, at: Int64)] = []
    let isLess: (Value, Value) -> Bool

    /// The latest; of the same time a removal, else the largest.
    var last: (value: Value?, at: Int64)? { last(upTo: .max) }

    func last(upTo time: Int64) -> (value: Value?, at: Int64)? {
      let changes = changes.filter { $0.at <= time }
      guard let at = changes.map(\.at).max() else { return nil }
      let all = changes.filter { $0.at == at }.map(\.value)
      return (all.contains(nil) ? nil : all.compactMap(\.self).max(by: isLess), at)
    }

    mutating func add(_ change: FieldChange<Value>, _ at: Int64) {
      switch change {
      case .keep: break
      case .remove: changes.append((nil, at))
      case .set(let value): changes.append((value, at))
      }
    }
  }

  package struct Tag {
    var field = Field<TagValue> { RegistryModel.isLess($0, $1) }
    var increments: [(addend: Double, at: Int64, fingerprint: UInt32)] = []

    /// - Parameter allRemoved: when all tags were removed.
    func value(_ allRemoved: Int64?) -> TagValue? {
      var base = field.last
      if let allRemoved, base.map({ $0.at < allRemoved }) ?? true { base = (nil, allRemoved) }
      let added = increments.filter { $0.at >= base?.at ?? .min }
      switch base?.value {
      case .number(let number): return .number(added.reduce(number) { $0 + $1.addend })
      case nil: return added.isEmpty ? nil : .number(added.reduce(0) { $0 + $1.addend })
      case .text, .flag, .list: return base?.value
      }
    }
  }

  package struct Device {
    package var at: Int64
    var user = Field<String> { $0 < $1 }
    var locale = Field<String> { $0 < $1 }
    var osVersion = Field<[Int]> { $0.lexicographicallyPrecedes($1) }
    var timeZone = Field<String> { $0 < $1 }
    /// nil: it has none since then.
    var token: (hex: String?, at: Int64)?
    var startTokens: [String: (hex: String?, at: Int64)] = [:]
    var startTokensRemoved: Int64?
    var tags: [String: Tag] = [:]
    var tagsRemoved: Int64?
    /// Of tokens that got a 410, the oldest first.
    var gone: [(hex: String, at: Int64)] = []

    /// What was registered up to this time is gone.
    mutating func forget(_ time: Int64) {
      user.add(.remove, time)
      locale.add(.remove, time)
      osVersion.add(.remove, time)
      timeZone.add(.remove, time)
      if token.map({ $0.at <= time }) ?? true { token = (nil, time) }
      for (type, own) in startTokens where own.at <= time { startTokens[type] = nil }
      startTokensRemoved = max(startTokensRemoved ?? .min, time + 1)
      tagsRemoved = max(tagsRemoved ?? .min, time + 1)
      gone.removeAll { $0.at <= time }
    }

    package var state: State {
      State(
        at: at, user: user.last?.value, token: token.flatMap { own in own.hex.map { "\($0) \(own.at)" } },
        startTokens: startTokens.compactMapValues { own in own.hex.map { "\($0) \(own.at)" } },
        locale: locale.last?.value, osVersion: osVersion.last?.value, timeZone: timeZone.last?.value,
        tags: tags.compactMapValues { $0.value(tagsRemoved) })
    }
  }

  /// What can be seen of a device.
  package struct State: Equatable {
    package var at: Int64
    package var user: String?
    /// Hex digits and time.
    package var token: String?
    package var startTokens: [String: String] = [:]
    package var locale: String?
    package var osVersion: [Int]?
    package var timeZone: String?
    package var tags: [String: TagValue] = [:]
  }

  package private(set) var devices: [String: Device] = [:]
  private var forgottenDevices: [String: Int64] = [:]
  private var forgottenUsers: [String: Int64] = [:]
  /// Tokens that were registered, of either kind: when last, and by which device.
  private var lastRegistered: [String: (at: Int64, device: String)] = [:]

  package init() {}

  // MARK: - What happens

  /// Applies a registration, and tells whether it was taken.
  @discardableResult
  package mutating func register(_ registration: DeviceRegistration, at: Int64) -> Bool {
    let id = registration.device
    var device = devices[id] ?? Device(at: at)
    device.at = max(device.at, at)
    device.user.add(registration.user, at)
    device.locale.add(registration.locale, at)
    device.timeZone.add(registration.timeZone, at)
    switch registration.osVersion {
    case .keep: break
    case .remove: device.osVersion.add(.remove, at)
    case .set(let version): device.osVersion.add(.set([version.major, version.minor, version.patch].map(Int.init)), at)
    }
    guard change(&device, registration, at) else { return false }
    if isForgotten(registration, device, at) {
      // It had its tokens all the same.
      takeTokens(registration, at)
      return false
    }
    takeTokens(registration, at)
    changeStartTokens(&device, registration, at)
    claim(registration, &device, at)
    devices[id] = device
    return true
  }

  /// - Parameter device: with this registration.
  private mutating func isForgotten(_ registration: DeviceRegistration, _ device: Device, _ at: Int64) -> Bool {
    let id = registration.device
    var isForgotten = forgottenDevices[id].map { $0 >= at } ?? false
    var times: [Int64] = []
    for (name, time) in forgottenUsers where time >= at && device.user.last(upTo: time)?.value == name {
      // It would have been forgotten with its user, had it come before.
      times.append(time)
      isForgotten = true
    }
    if let time = times.max() { forget(device: id, at: time) }
    return isForgotten
  }

  /// Devices that registered one of its tokens earlier do not have it any more.
  private mutating func takeTokens(_ registration: DeviceRegistration, _ at: Int64) {
    let device = registration.device
    func isEarlier(_ id: String, _ time: Int64) -> Bool { time < at || time == at && id < device }
    func took(_ key: String, fromSameTime: Bool) {
      if fromSameTime || lastRegistered[key].map({ $0.at < at }) ?? true { lastRegistered[key] = (at, device) }
    }
    if case .set(let bytes) = registration.token {
      let hex = Hex.text(bytes)
      var fromSameTime = false
      for (id, other) in devices where id != device {
        guard let own = other.token, own.hex == hex, isEarlier(id, own.at) else { continue }
        devices[id]?.token?.hex = nil
        fromSameTime = fromSameTime || own.at == at
      }
      took("token \(hex)", fromSameTime: fromSameTime)
    }
    for hex in Set(registration.startTokens.compactMap { $0.token.map(Hex.text) }) {
      var fromSameTime = false
      for (id, other) in devices where id != device {
        for (type, own) in other.startTokens where own.hex == hex && isEarlier(id, own.at) {
          devices[id]?.startTokens[type]?.hex = nil
          fromSameTime = fromSameTime || own.at == at
        }
      }
      took("start \(hex)", fromSameTime: fromSameTime)
    }
  }

  private func change(_ device: inout Device, _ registration: DeviceRegistration, _ at: Int64) -> Bool {
    if registration.removesTags { device.tagsRemoved = max(device.tagsRemoved ?? at, at) }
    for change in registration.tags {
      var tag = device.tags[change.name] ?? Tag()
      switch change.change {
      case .set(let value): tag.field.add(.set(value), at)
      case .remove: tag.field.add(.remove, at)
      case .increment(let addend):
        if tag.increments.contains(where: { $0.at == at && $0.fingerprint == registration.fingerprint }) { continue }
        // Too old an increment counts for nothing, whatever the tag is.
        if at < max(tag.field.last?.at ?? at, device.tagsRemoved ?? at) { break }
        tag.increments.append((addend, at, registration.fingerprint))
      }
      device.tags[change.name] = tag
    }
    return device.tags.values.count { $0.value(device.tagsRemoved) != nil } <= 100
  }

  private mutating func changeStartTokens(_ device: inout Device, _ registration: DeviceRegistration, _ at: Int64) {
    if registration.removesStartTokens {
      device.startTokensRemoved = max(device.startTokensRemoved ?? at, at)
      for (type, own) in device.startTokens where own.at < at { device.startTokens[type] = nil }
    }
    for start in registration.startTokens {
      if let all = device.startTokensRemoved, all > at { continue }
      let token = start.token.map(Hex.text)
      if let known = device.startTokens[start.type] {
        if known.at > at { continue }
        if known.at == at, known.hex == nil || token.map({ $0 <= known.hex ?? "" }) ?? false { continue }
      }
      device.startTokens[start.type] = (nil, at)
      guard let token else { continue }
      let isHeld = devices.contains { id, other in
        id != registration.device && other.startTokens.values.contains { $0.hex == token }
      }
      if isHeld || isOutdated("start \(token)", registration.device, at) || !isAlive(token, &device, at) { continue }
      device.startTokens[start.type] = (token, at)
    }
  }

  private mutating func claim(_ registration: DeviceRegistration, _ device: inout Device, _ at: Int64) {
    let hex: String?
    switch registration.token {
    case .keep: return
    case .remove: hex = nil
    case .set(let bytes): hex = Hex.text(bytes)
    }
    if let known = device.token {
      if known.at > at { return }
      if known.at == at, let hex, known.hex == nil || hex <= known.hex ?? "" { return }
    }
    device.token = (nil, at)
    guard let hex else { return }
    let isHeld = devices.contains { $0.key != registration.device && $0.value.token?.hex == hex }
    guard !isHeld, !isOutdated("token \(hex)", registration.device, at), isAlive(hex, &device, at) else { return }
    device.token = (hex, at)
  }

  /// Whether another device had the token later.
  private func isOutdated(_ key: String, _ device: String, _ at: Int64) -> Bool {
    lastRegistered[key].map { $0.at >= at && $0.device != device } ?? false
  }

  /// A token got a 410. Start tokens are looked for on the device alone.
  package mutating func lose(_ token: [UInt8], at: Int64, device id: String) {
    guard var device = devices[id] else { return }
    let hex = Hex.text(token)
    var hasLost = false
    if let own = device.token, own.hex == hex, own.at <= at {
      device.token?.hex = nil
      hasLost = true
    }
    for (type, own) in device.startTokens where own.hex == hex && own.at <= at {
      device.startTokens[type]?.hex = nil
      hasLost = true
    }
    guard hasLost else { return }
    device.gone.removeAll { $0.hex == hex }
    device.gone.append((hex, at))
    if device.gone.count > 4 { device.gone.removeFirst() }
    devices[id] = device
  }

  package mutating func forget(device id: String, at: Int64) {
    forgottenDevices[id] = max(forgottenDevices[id] ?? at, at)
    if let device = devices[id], device.at <= at { devices[id] = nil }
    devices[id]?.forget(at)
  }

  package mutating func forget(user: String, at: Int64) {
    forgottenUsers[user] = max(forgottenUsers[user] ?? at, at)
    for (id, device) in devices where device.user.last(upTo: at)?.value == user {
      forget(device: id, at: at)
    }
  }

  private func isAlive(_ token: String, _ device: inout Device, _ at: Int64) -> Bool {
    guard let index = device.gone.firstIndex(where: { $0.hex == token }) else { return true }
    if device.gone[index].at >= at { return false }
    device.gone.remove(at: index)
    return true
  }

  /// Flags, numbers, texts, lists; each kind in its own order.
  private static func isLess(_ left: TagValue, _ right: TagValue) -> Bool {
    func key(_ value: TagValue) -> (Int, Double, [String]) {
      switch value {
      case .flag(let flag): (0, flag ? 1 : 0, [])
      case .number(let number): (1, number, [])
      case .text(let text): (2, 0, [text])
      case .list(let members): (3, 0, members)
      }
    }
    let (a, b) = (key(left), key(right))
    return a.0 != b.0 ? a.0 < b.0 : a.1 != b.1 ? a.1 < b.1 : a.2.lexicographicallyPrecedes(b.2)
  }

  // MARK: - What there is then

  /// Every set that is not empty, with the ids of its devices.
  package var sets: [DeviceSet: Set<String>] {
    var sets: [DeviceSet: Set<String>] = [:]
    for (id, device) in devices.mapValues(\.state) {
      func put(_ set: DeviceSet) { sets[set, default: []].insert(id) }
      put(.everyone)
      put(.id(id))
      put(.seen(day: Int32((Double(device.at) / 86_400_000).rounded(.down))))
      if let user = device.user { put(.user(user)) }
      if let token = device.token {
        put(.hasToken)
        put(.token(RegistryModel.bytes(String(token.prefix { $0 != " " }))))
      }
      for (type, token) in device.startTokens {
        put(.hasPushToStart(type))
        put(.startToken(RegistryModel.bytes(String(token.prefix { $0 != " " }))))
      }
      if let parts = device.locale?.lowercased().split(separator: "-") {
        for count in 1...parts.count { put(.locale(parts.prefix(count).joined(separator: "-"))) }
      }
      if let version = device.osVersion {
        put(.osVersion(OSVersion(major: UInt16(version[0]), minor: UInt16(version[1]), patch: UInt16(version[2]))))
      }
      for (name, value) in device.tags {
        put(.tagExists(name))
        switch value {
        case .text(let text): put(.tagText(name, text))
        case .flag(let flag): put(.tagFlag(name, flag))
        case .list(let members): for member in members { put(.tagText(name, member)) }
        case .number(let number):
          put(.tagIsNumber(name))
          for bit in UInt8(0)..<64 where RegistryModel.hasBit(bit, number) { put(.tagBit(name, bit)) }
        }
      }
    }
    return sets
  }

  /// The sign bit is set of what is not negative; all others are turned over of what is.
  private static func hasBit(_ bit: UInt8, _ number: Double) -> Bool {
    let pattern = String(number.bitPattern, radix: 2)
    let digits = Array(String(repeating: "0", count: 64 - pattern.count) + pattern)
    let isSet = digits[63 - Int(bit)] == "1"
    if bit == 63 { return !isSet }
    return number < 0 ? !isSet : isSet
  }

  private static func bytes(_ hex: String) -> [UInt8] {
    let digits = Array(hex)
    return stride(from: 0, to: digits.count, by: 2).compactMap { UInt8(String(digits[$0...$0 + 1]), radix: 16) }
  }
}

extension DeviceRecord {
  /// As the model has it; the times of fields and 410s show in what comes later.
  package var modelState: RegistryModel.State {
    var state = RegistryModel.State(at: at)
    state.user = user
    state.token = token.map { "\(Hex.text($0.bytes)) \($0.at)" }
    for start in startTokens { state.startTokens[start.type] = "\(Hex.text(start.token.bytes)) \(start.token.at)" }
    state.locale = locale
    state.osVersion = osVersion.map { [$0.major, $0.minor, $0.patch].map(Int.init) }
    state.timeZone = timeZone
    for tag in tags { state.tags[tag.name] = tag.value }
    return state
  }
}
