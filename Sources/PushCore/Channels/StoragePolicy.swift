/// Whether a channel keeps a message for devices that are away. Chosen when the channel is made, and never changed.
package enum StoragePolicy: UInt8, CaseIterable, Hashable, Sendable {
  /// Nothing is kept (`message-storage-policy` 0): for frequent updates, which get a larger budget so.
  case none = 0
  /// The newest message is kept, for at most 8 hours (1): for updates that are few.
  case mostRecent = 1

  /// The word in commands, requests and replies.
  package var name: String {
    switch self {
    case .none: "none"
    case .mostRecent: "most-recent"
    }
  }

  /// The policy that this word names.
  package init?(name: String) {
    guard let policy = StoragePolicy.allCases.first(where: { $0.name == name }) else { return nil }
    self = policy
  }

  /// How long APNs keeps the newest message of a channel with storage, at most.
  package static let storedSecondsMaximum: Int64 = 8 * 3600
}
