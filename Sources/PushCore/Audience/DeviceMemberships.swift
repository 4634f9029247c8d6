extension DeviceRecord {
  /// The sets that the device is in, each once.
  package var memberships: [DeviceSet] {
    var sets: [DeviceSet] = [.everyone, .id(id), .seen(day: DeviceRecord.day(of: at))]
    if let user { sets.append(.user(user)) }
    if let token { sets += [.token(token.bytes), .hasToken] }
    for (index, start) in startTokens.enumerated() {
      sets.append(.hasPushToStart(start.type))
      // A token may be that of several types.
      if startTokens.firstIndex(where: { $0.token.bytes == start.token.bytes }) == index {
        sets.append(.startToken(start.token.bytes))
      }
    }
    if let locale, let canonical = LocaleText.canonical(locale) {
      var form = Substring(canonical)
      while true {
        sets.append(.locale(String(form)))
        guard let hyphen = form.lastIndex(of: "-") else { break }
        form = form[..<hyphen]
      }
    }
    if let osVersion { sets.append(.osVersion(osVersion)) }
    for tag in tags {
      sets.append(.tagExists(tag.name))
      switch tag.value {
      case .text(let text): sets.append(.tagText(tag.name, text))
      case .flag(let flag): sets.append(.tagFlag(tag.name, flag))
      case .list(let members): for member in members { sets.append(.tagText(tag.name, member)) }
      case .number(let number):
        sets.append(.tagIsNumber(tag.name))
        let bits = SortableNumber.bits(number)
        for bit in UInt8(0)..<64 where bits >> UInt64(bit) & 1 == 1 { sets.append(.tagBit(tag.name, bit)) }
      }
    }
    return sets
  }

  /// Days since 1 January 1970 UTC.
  package static func day(of unixMilliseconds: Int64) -> Int32 {
    Int32(clamping: unixMilliseconds >= 0 ? unixMilliseconds / 86_400_000 : (unixMilliseconds + 1) / 86_400_000 - 1)
  }
}

/// The sets that a device enters and leaves.
package struct DeviceSetChanges: Hashable, Sendable {
  package var added: [DeviceSetName] = []
  package var removed: [DeviceSetName] = []

  /// The sets of a device before and after; empty: there is no such device.
  package init(from old: [DeviceSet], to new: [DeviceSet]) {
    // Compare names, which are hashes of bytes: equal strings may have different bytes.
    let before = old.map(DeviceSetName.init)
    let after = new.map(DeviceSetName.init)
    if before.isEmpty || after.isEmpty {
      added = after
      removed = before
      return
    }
    let beforeSet = Set(before)
    let afterSet = Set(after)
    added = after.filter { !beforeSet.contains($0) }
    removed = before.filter { !afterSet.contains($0) }
  }
}
