/// Whether a channel keeps a message for devices that are offline. Set when the channel is created, and never changed.
package enum StoragePolicy: UInt8, CaseIterable, Hashable, Sendable {
  /// Nothing is kept (`message-storage-policy` 0): for frequent updates, which then get a larger budget.
  case none = 0
  /// The newest message is kept for at most 8 hours (1): for infrequent updates.
  case mostRecent = 1

  /// The word in commands, requests and replies.
  package var name: String {
    switch self {
    case .none: "none"
    case .mostRecent: "most-recent"
    }
  }

  /// The policy for this word.
  package init?(name: String) {
    guard let policy = StoragePolicy.allCases.first(where: { $0.name == name }) else { return nil }
    self = policy
  }

  /// The longest time for which APNs keeps a channel's newest message.
  package static let storedSecondsMaximum: Int64 = 8 * 3600
}
