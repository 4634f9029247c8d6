import PushCore

/// Whether a channel keeps a message for devices that are offline. Set when the channel is created, and never changed.
public enum ChannelStorage: String, CaseIterable, Hashable, Sendable {
  /// Nothing is kept: for frequent updates, which then get a larger budget. Broadcasts to it expire at once.
  case none
  /// The newest message is kept for at most 8 hours: for infrequent updates.
  case mostRecent = "most-recent"

  init(_ policy: StoragePolicy) {
    switch policy {
    case .none: self = .none
    case .mostRecent: self = .mostRecent
    }
  }

  var policy: StoragePolicy {
    switch self {
    case .none: .none
    case .mostRecent: .mostRecent
    }
  }
}
