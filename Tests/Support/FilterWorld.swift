package import PushCore

/// A device as plain values, and what a filter says of it by the words of its definition: shares nothing with sets and bitmaps.
package struct FilterDevice {
  package var tags: [String: TagValue] = [:]
  /// As the app gave it.
  package var locale: String?
  package var osVersion: OSVersion?
  package var seenAt: Int64
  package var hasToken = false
  package var startTypes: Set<String> = []

  package static let tagNames = ["plan", "level", "teams", "a\"b", "é\n", "vip"]

  package static func random(using random: inout SeededRandom, now: Int64) -> FilterDevice {
    var device = FilterDevice(seenAt: now - Int64.random(in: -600_000...50 * 86_400_000, using: &random))
    for name in tagNames where Int.random(in: 0..<3, using: &random) > 0 {
      switch SegmentValue.random(using: &random) {
      case .number(let number): device.tags[name] = .number(number)
      case .flag(let flag): device.tags[name] = .flag(flag)
      case .text(let text):
        let list = [text] + ["gold", "a", "b"].filter { $0 != text && Bool.random(using: &random) }
        device.tags[name] = Bool.random(using: &random) ? .text(text) : .list(list)
      }
    }
    device.locale = ["en", "en-GB", "en_gb", "it", "it-IT", "zh-Hans-CN", nil].randomElement(using: &random) ?? nil
    if Bool.random(using: &random) {
      device.osVersion = OSVersion(
        major: .random(in: 15...19, using: &random), minor: .random(in: 0...2, using: &random),
        patch: .random(in: 0...1, using: &random))
    }
    device.hasToken = Bool.random(using: &random)
    for type in ["*", "Ride", "Order:\"1\""] where Int.random(in: 0..<4, using: &random) == 0 {
      device.startTypes.insert(type)
    }
    return device
  }

  /// - Parameter now: Unix milliseconds.
  package func matches(_ filter: SegmentFilter, now: Int64) -> Bool {
    switch filter {
    case .all(let filters): filters.allSatisfy { matches($0, now: now) }
    case .any(let filters): filters.contains { matches($0, now: now) }
    case .not(let filter): !matches(filter, now: now)
    case .leaf(let condition): matches(condition, now: now)
    }
  }

  private func matches(_ condition: SegmentCondition, now: Int64) -> Bool {
    switch condition {
    case .tagIs(let tag, let value): return holds(tag, value)
    case .tagIn(let tag, let values): return values.contains { holds(tag, $0) }
    case .tagAtLeast(let tag, let number):
      if case .number(let own) = tags[tag] { return own >= number }
      return false
    case .tagAtMost(let tag, let number):
      if case .number(let own) = tags[tag] { return own <= number }
      return false
    case .tagExists(let tag): return tags[tag] != nil
    case .locale(let wanted):
      guard let own = locale?.lowercased().replacing("_", with: "-") else { return false }
      return own == wanted || own.hasPrefix(wanted + "-")
    case .osAtLeast(let least): return osVersion.map { $0 >= least } ?? false
    case .seenWithin(let days):
      // Every device seen so lately is in; which of those of the day before are depends on the time of day.
      let midnight = now - now % 86_400_000
      return seenAt >= midnight - Int64(days) * 86_400_000
    case .hasToken: return hasToken
    case .hasPushToStart(let type): return startTypes.contains(type) || startTypes.contains("*")
    case .segment: return false
    }
  }

  private func holds(_ tag: String, _ value: SegmentValue) -> Bool {
    switch (tags[tag], value) {
    case (.text(let own), .text(let wanted)): own == wanted
    case (.list(let own), .text(let wanted)): own.contains(wanted)
    case (.number(let own), .number(let wanted)): own == wanted
    case (.flag(let own), .flag(let wanted)): own == wanted
    default: false
    }
  }

  /// What an app's server would register.
  package func registration(id: String, user: String?) -> DeviceRegistration {
    var registration = DeviceRegistration(device: id)
    registration.user = user.map { .set($0) } ?? .keep
    if hasToken { registration.token = .set(Array(id.utf8)) }
    registration.startTokens = startTypes.sorted().map {
      DeviceRegistration.StartToken(type: $0, token: Array("\(id) \($0)".utf8))
    }
    registration.locale = locale.map { .set($0) } ?? .keep
    registration.osVersion = osVersion.map { .set($0) } ?? .keep
    registration.tags = tags.sorted { $0.key < $1.key }.map {
      DeviceRegistration.Tag(name: $0.key, change: .set($0.value))
    }
    return registration
  }

  /// The sets that it is in, as `DeviceSet` describes them.
  package var sets: Set<DeviceSet> {
    var sets: Set<DeviceSet> = [.everyone, .seen(day: Int32(seenAt / 86_400_000))]
    if hasToken { sets.insert(.hasToken) }
    for type in startTypes { sets.insert(.hasPushToStart(type)) }
    if let osVersion { sets.insert(.osVersion(osVersion)) }
    if let locale {
      let parts = locale.lowercased().replacing("_", with: "-").split(separator: "-")
      for count in 1...parts.count { sets.insert(.locale(parts.prefix(count).joined(separator: "-"))) }
    }
    for (tag, value) in tags {
      sets.insert(.tagExists(tag))
      switch value {
      case .text(let text): sets.insert(.tagText(tag, text))
      case .list(let texts): for text in texts { sets.insert(.tagText(tag, text)) }
      case .flag(let flag): sets.insert(.tagFlag(tag, flag))
      case .number(let number):
        sets.insert(.tagIsNumber(tag))
        for bit in UInt8(0)..<64 where SortableNumber.bits(number) >> UInt64(bit) & 1 == 1 {
          sets.insert(.tagBit(tag, bit))
        }
      }
    }
    return sets
  }
}

/// Devices at ordinals, and their sets as the registry keeps them.
package struct FilterWorld {
  package let now: Int64
  package private(set) var devices: [UInt32: FilterDevice] = [:]
  /// Ascending.
  package private(set) var sets: [DeviceSet: [UInt32]] = [:]

  /// - Parameter ordinals: where the devices are.
  package init(_ ordinals: some Sequence<UInt32>, now: Int64, using random: inout SeededRandom) {
    self.now = now
    for ordinal in ordinals {
      let device = FilterDevice.random(using: &random, now: now)
      devices[ordinal] = device
      for set in device.sets { sets[set, default: []].append(ordinal) }
    }
    for set in sets.keys { sets[set]?.sort() }
  }

  package var osVersions: [OSVersion] {
    Set(devices.values.compactMap(\.osVersion)).sorted()
  }

  /// A set's value in a chunk; nil: nobody of the chunk is in the set.
  package func value(_ set: DeviceSet, chunk: Int) -> [UInt8]? {
    let places = (sets[set] ?? []).filter { OrdinalChunk.index(of: $0) == chunk }.map(OrdinalChunk.place)
    return places.isEmpty ? nil : FilterWorld.value(places)
  }

  /// Places of a chunk as the registry keeps them: a list, or a bitmap.
  package static func value(_ places: [UInt16]) -> [UInt8] {
    if places.count <= OrdinalChunk.listMaximum {
      return places.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
    var bytes = [UInt8](repeating: 0, count: OrdinalChunk.bitmapBytes)
    for place in places { bytes[Int(place) / 8] |= 0x80 >> UInt8(place % 8) }
    return bytes
  }
}
