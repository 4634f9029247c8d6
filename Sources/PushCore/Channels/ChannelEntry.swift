/// What the registry knows of one channel. Its text in Redis: `storage TAB created TAB request TAB name`.
package struct ChannelEntry: Hashable, Sendable {
  /// nil: unknown, because the channel was found in a list and nobody has asked APNs.
  package var storage: StoragePolicy?
  /// When it was created or found; Unix milliseconds.
  package var createdAt: Int64
  /// The queue request that created it; nil if none did.
  package var request: String?
  /// nil: found in APNs' list, created by another sender.
  package var name: ChannelName?

  package init(storage: StoragePolicy?, createdAt: Int64, request: String? = nil, name: ChannelName? = nil) {
    self.storage = storage
    self.createdAt = createdAt
    self.request = request
    self.name = name
  }

  /// nil if the text is not an entry.
  package init?(_ text: String) {
    let parts = text.split(separator: "\t", maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count == 4, let createdAt = Int64(parts[1]), 0...Limits.unixMillisecondsMaximum ~= createdAt else {
      return nil
    }
    switch parts[0] {
    case "?": storage = nil
    case let word:
      guard let number = UInt8(word), let policy = StoragePolicy(rawValue: number) else { return nil }
      storage = policy
    }
    self.createdAt = createdAt
    request = parts[2].isEmpty ? nil : String(parts[2])
    name = parts[3].isEmpty ? nil : ChannelName(String(parts[3]))
  }

  package var text: String {
    "\(storage.map { String($0.rawValue) } ?? "?")\t\(createdAt)\t\(request ?? "")\t\(name?.text ?? "")"
  }
}

/// A create that was begun and whose result is unknown: `storage TAB begun TAB owner TAB before`, by name; the last is missing where it is not
/// known, and in those of older versions.
package struct ChannelIntent: Hashable, Sendable {
  package var storage: StoragePolicy
  /// By Redis' clock, Unix milliseconds.
  package var begunAt: Int64
  package var owner: String
  /// The channels at APNs that Redis did not know when it began: it made none of them. nil: not known, or too many.
  package var before: [ChannelID]?

  /// More are not kept.
  package static let beforeMaximum = 64

  package init(storage: StoragePolicy, begunAt: Int64, owner: String, before: [ChannelID]? = nil) {
    self.storage = storage
    self.begunAt = begunAt
    self.owner = owner
    self.before = before
  }

  /// As in Redis; empty: none.
  package static func text(before: [ChannelID]) -> String { before.map(\.text).joined(separator: " ") }

  /// nil if the text is not an intent.
  package init?(_ text: String) {
    let parts = text.split(separator: "\t", maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count >= 3, let number = UInt8(parts[0]), let storage = StoragePolicy(rawValue: number),
      let begunAt = Int64(parts[1]), 0...Limits.unixMillisecondsMaximum ~= begunAt
    else { return nil }
    self.init(storage: storage, begunAt: begunAt, owner: String(parts[2]))
    guard parts.count == 4 else { return }
    let ids = parts[3].split(separator: " ").map { ChannelID(text: String($0)) }
    if ids.allSatisfy({ $0 != nil }) { before = ids.compactMap(\.self) }
  }
}
