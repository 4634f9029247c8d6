import PushCore

/// A device as plain values, and what a filter says of it by the words of its definition: shares nothing with sets and bitmaps.
struct FilterTestDevice {
  var tags: [String: TagValue] = [:]
  /// As the app gave it.
  var locale: String?
  var osVersion: OSVersion?
  var seenAt: Int64
  var hasToken = false
  var startTypes: Set<String> = []

  static let tagNames = ["plan", "level", "teams", "a\"b", "é\n", "vip"]

  static func random(using random: inout SeededRandom, now: Int64) -> FilterTestDevice {
    var device = FilterTestDevice(seenAt: now - Int64.random(in: -600_000...50 * 86_400_000, using: &random))
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
  func matches(_ filter: SegmentFilter, now: Int64) -> Bool {
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

  /// The sets that it is in, as `DeviceSet` describes them.
  var sets: Set<DeviceSet> {
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
struct FilterTestWorld {
  let now: Int64
  private(set) var devices: [UInt32: FilterTestDevice] = [:]
  /// Ascending.
  private(set) var sets: [DeviceSet: [UInt32]] = [:]

  /// - Parameter ordinals: where the devices are.
  init(_ ordinals: some Sequence<UInt32>, now: Int64, using random: inout SeededRandom) {
    self.now = now
    for ordinal in ordinals {
      let device = FilterTestDevice.random(using: &random, now: now)
      devices[ordinal] = device
      for set in device.sets { sets[set, default: []].append(ordinal) }
    }
    for set in sets.keys { sets[set]?.sort() }
  }

  var osVersions: [OSVersion] {
    Set(devices.values.compactMap(\.osVersion)).sorted()
  }

  /// A set's value in a chunk: a list, or a bitmap.
  func value(_ set: DeviceSet, chunk: Int) -> [UInt8]? {
    let places = (sets[set] ?? []).filter { OrdinalChunk.index(of: $0) == chunk }.map(OrdinalChunk.place)
    if places.isEmpty { return nil }
    if places.count <= OrdinalChunk.listMaximum {
      return places.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
    var bytes = [UInt8](repeating: 0, count: OrdinalChunk.bitmapBytes)
    for place in places { bytes[Int(place) / 8] |= 0x80 >> UInt8(place % 8) }
    return bytes
  }
}
