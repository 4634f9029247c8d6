package import PushCore

/// The names of an app's channel keys in Redis. They share one hash tag, so all are in one slot of a cluster.
package struct ChannelKeys: Hashable, Sendable {
  private let tag: String

  package init(prefix: String, scope: AppScope) {
    tag = "\(prefix){channels:\(scope.environment.name):\(scope.app)}:"
  }

  /// Hash: name → id.
  package var names: String { tag + "names" }
  /// Hash: id → `ChannelEntry`.
  package var ids: String { tag + "ids" }
  /// Sorted set: id by last use, Unix seconds.
  package var used: String { tag + "used" }
  /// Hash: name → `ChannelIntent`.
  package var intents: String { tag + "intents" }
  /// The id of the channel that its creator deletes again, or deleted last.
  package var discarded: String { tag + "discarded" }
  /// The number of channels at APNs; expires, and is then counted again.
  package var count: String { tag + "count" }
  /// The lock of the worker that creates a name's channel; expires.
  package func lock(_ name: ChannelName) -> String { tag + "lock:" + name.text }
  /// The answer to a request of the queue; expires.
  package func answer(_ request: String) -> String { tag + "answer:" + request }
  /// How often isolated copies of a request were begun since one was finished; expires.
  package func tries(_ request: String) -> String { tag + "tries:" + request }
  /// The answer to a request that was given up; expires.
  package func givenUp(_ request: String) -> String { tag + "given-up:" + request }
}
