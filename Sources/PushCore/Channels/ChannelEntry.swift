/// What the registry knows of one channel, and how that is written in Redis: `storage TAB created TAB request TAB name`.
package struct ChannelEntry: Hashable, Sendable {
  /// nil: nobody asked APNs yet; of a channel that was found in a list.
  package var storage: StoragePolicy?
  /// When it was made, or found; Unix milliseconds.
  package var createdAt: Int64
  /// The queue request that made it; nil where none did.
  package var request: String?
  /// nil: found in a list of APNs, made by somebody else.
  package var name: ChannelName?

  package init(storage: StoragePolicy?, createdAt: Int64, request: String? = nil, name: ChannelName? = nil) {
    self.storage = storage
    self.createdAt = createdAt
    self.request = request
    self.name = name
  }

  /// nil: the text is no entry.
  package init?(_ text: String) {
    let parts = text.split(separator: "\t", maxSplits: 3, omittingEmptySubsequences: false)
    guard parts.count == 4, let createdAt = Int64(parts[1]) else { return nil }
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

/// A create that was begun and whose end is not known yet: `storage TAB begun TAB owner`, by name.
package struct ChannelIntent: Hashable, Sendable {
  package var storage: StoragePolicy
  /// By Redis' clock, Unix milliseconds.
  package var begunAt: Int64
  package var owner: String

  package init(storage: StoragePolicy, begunAt: Int64, owner: String) {
    self.storage = storage
    self.begunAt = begunAt
    self.owner = owner
  }

  /// nil: the text is no intent.
  package init?(_ text: String) {
    let parts = text.split(separator: "\t", maxSplits: 2, omittingEmptySubsequences: false)
    guard parts.count == 3, let number = UInt8(parts[0]), let storage = StoragePolicy(rawValue: number),
      let begunAt = Int64(parts[1])
    else { return nil }
    self.init(storage: storage, begunAt: begunAt, owner: String(parts[2]))
  }
}
