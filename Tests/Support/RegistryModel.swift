package import PushCore

/// What a registry of one app's devices must hold, as plainly as it can be said: dictionaries, and no code of the registry's own.
package struct RegistryModel {
  package struct Device: Equatable {
    package var at: Int64
    package var user: String?
    package var token: (hex: String, at: Int64)?
    package var startTokens: [String: (hex: String, at: Int64)] = [:]
    package var locale: String?
    package var osVersion: [Int]?
    package var timeZone: String?
    package var tags: [String: TagValue] = [:]
    /// Of tokens that got a 410, the oldest first.
    package var gone: [(hex: String, at: Int64)] = []
    /// Of the registrations at this time that incremented a tag.
    package var increments: [UInt32] = []

    package static func == (left: Device, right: Device) -> Bool {
      left.at == right.at && left.user == right.user && left.token?.hex == right.token?.hex
        && left.token?.at == right.token?.at && left.startTokens.mapValues(\.hex) == right.startTokens.mapValues(\.hex)
        && left.startTokens.mapValues(\.at) == right.startTokens.mapValues(\.at) && left.locale == right.locale
        && left.osVersion == right.osVersion && left.timeZone == right.timeZone && left.tags == right.tags
        && left.increments == right.increments
    }
  }

  package private(set) var devices: [String: Device] = [:]
  private var forgottenDevices: [String: Int64] = [:]
  private var forgottenUsers: [String: Int64] = [:]

  package init() {}

  // MARK: - What happens

  /// Applies a registration, and tells whether it was taken.
  @discardableResult
  package mutating func register(_ registration: DeviceRegistration, at: Int64) -> Bool {
    let known = devices[registration.device]
    if let known, known.at > at { return false }
    if let time = forgottenDevices[registration.device], time >= at { return false }
    var device = known ?? Device(at: at)
    if device.at != at { device.increments = [] }
    let isRepeated = device.increments.contains(registration.fingerprint)
    device.at = at
    if case .set(let user) = registration.user { device.user = user }
    if registration.user == .remove { device.user = nil }
    if let user = device.user, let time = forgottenUsers[user], time >= at {
      // It would have been forgotten with its user, had it come before.
      forget(device: registration.device, at: time)
      return false
    }
    if case .set(let locale) = registration.locale { device.locale = locale }
    if registration.locale == .remove { device.locale = nil }
    if case .set(let zone) = registration.timeZone { device.timeZone = zone }
    if registration.timeZone == .remove { device.timeZone = nil }
    if case .set(let version) = registration.osVersion {
      device.osVersion = [version.major, version.minor, version.patch].map(Int.init)
    }
    if registration.osVersion == .remove { device.osVersion = nil }
    guard change(&device.tags, registration, isRepeated: isRepeated) else { return false }
    if registration.tags.contains(where: { if case .increment = $0.change { true } else { false } }) {
      if !isRepeated { device.increments.append(registration.fingerprint) }
    }
    if registration.removesStartTokens { device.startTokens = [:] }
    for start in registration.startTokens {
      device.startTokens[start.type] = nil
      guard let token = start.token.map(Hex.text), isAlive(token, &device, at) else { continue }
      device.startTokens[start.type] = (token, at)
    }
    if registration.token == .remove { device.token = nil }
    if case .set(let bytes) = registration.token {
      let token = Hex.text(bytes)
      let holder = devices.first { $0.key != registration.device && $0.value.token?.hex == token }
      device.token = nil
      if let holder, let time = holder.value.token?.at, time > at {
        // Somebody newer has it.
      } else if isAlive(token, &device, at) {
        device.token = (token, at)
        if let holder { devices[holder.key]?.token = nil }
      }
    }
    devices[registration.device] = device
    return true
  }

  /// A token got a 410. Start tokens are looked for on the device alone.
  package mutating func lose(_ token: [UInt8], at: Int64, device id: String) {
    guard var device = devices[id] else { return }
    let hex = Hex.text(token)
    var hasLost = false
    if let own = device.token, own.hex == hex, own.at <= at {
      device.token = nil
      hasLost = true
    }
    for (type, own) in device.startTokens where own.hex == hex && own.at <= at {
      device.startTokens[type] = nil
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
  }

  package mutating func forget(user: String, at: Int64) {
    forgottenUsers[user] = max(forgottenUsers[user] ?? at, at)
    for (id, device) in devices where device.user == user && device.at <= at { forget(device: id, at: at) }
  }

  private func isAlive(_ token: String, _ device: inout Device, _ at: Int64) -> Bool {
    guard let index = device.gone.firstIndex(where: { $0.hex == token }) else { return true }
    if device.gone[index].at >= at { return false }
    device.gone.remove(at: index)
    return true
  }

  private func change(
    _ tags: inout [String: TagValue], _ registration: DeviceRegistration, isRepeated: Bool
  ) -> Bool {
    if registration.removesTags { tags = [:] }
    for tag in registration.tags {
      switch tag.change {
      case .set(let value): tags[tag.name] = value
      case .remove: tags[tag.name] = nil
      case .increment(let addend):
        if isRepeated { continue }
        switch tags[tag.name] {
        case nil: tags[tag.name] = .number(addend)
        case .number(let number): tags[tag.name] = .number(number + addend)
        case .text, .flag, .list: return false
        }
      }
    }
    return tags.count <= 100
  }

  // MARK: - What there is then

  /// Every set that is not empty, with the ids of its devices.
  package var sets: [DeviceSet: Set<String>] {
    var sets: [DeviceSet: Set<String>] = [:]
    for (id, device) in devices {
      func put(_ set: DeviceSet) { sets[set, default: []].insert(id) }
      put(.everyone)
      put(.id(id))
      put(.seen(day: Int32((Double(device.at) / 86_400_000).rounded(.down))))
      if let user = device.user { put(.user(user)) }
      if let token = device.token {
        put(.hasToken)
        put(.token(RegistryModel.bytes(token.hex)))
      }
      for type in device.startTokens.keys { put(.hasPushToStart(type)) }
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
  /// As the model has it; 410s, which the model keeps by their tokens, are left out.
  package var modelDevice: RegistryModel.Device {
    var device = RegistryModel.Device(at: at)
    device.user = user
    device.token = token.map { (Hex.text($0.bytes), $0.at) }
    for start in startTokens { device.startTokens[start.type] = (Hex.text(start.token.bytes), start.token.at) }
    device.locale = locale
    device.osVersion = osVersion.map { [$0.major, $0.minor, $0.patch].map(Int.init) }
    device.timeZone = timeZone
    for tag in tags { device.tags[tag.name] = tag.value }
    device.increments = incrementFingerprints
    return device
  }
}
