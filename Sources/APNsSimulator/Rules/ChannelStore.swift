import PushCore

/// The broadcast channels of one environment, by app.
package struct ChannelStore: Sendable {
  package enum Storage: Int, Sendable {
    case none = 0
    case mostRecent = 1
  }

  package struct Channel: Hashable, Sendable {
    /// Base64.
    package let id: String
    package let storage: Storage

    package init(id: String, storage: Storage) {
      self.id = id
      self.storage = storage
    }
  }

  /// Apple's limit for an app and environment.
  package static let channelsMaximum = 10_000

  package var channelsMaximum = ChannelStore.channelsMaximum
  /// Apps without the broadcast capability.
  package var disabledApps: Set<String> = []
  private var apps: [String: [String: Channel]] = [:]

  package init() {}

  package func count(of app: String) -> Int { apps[app]?.count ?? 0 }

  package func channel(_ id: String, of app: String) -> Channel? { apps[app]?[id] }

  /// In a stable order.
  package func all(of app: String) -> [Channel] { (apps[app] ?? [:]).values.sorted { $0.id < $1.id } }

  /// nil: the app has its maximum of channels. The id is made of `bits`, and is never reused.
  package mutating func create(app: String, storage: Storage, bits: (UInt64, UInt64)) -> Channel? {
    guard count(of: app) < channelsMaximum else { return nil }
    var bytes: [UInt8] = []
    for word in [bits.0, bits.1] {
      for shift in stride(from: 56, through: 0, by: -8) {
        bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(shift)))
      }
    }
    let channel = Channel(id: Base64.text(of: bytes, .standard), storage: storage)
    apps[app, default: [:]][channel.id] = channel
    return channel
  }

  /// A channel with an id that the test chose.
  package mutating func add(_ channel: Channel, to app: String) {
    apps[app, default: [:]][channel.id] = channel
  }

  package mutating func delete(_ id: String, of app: String) -> Bool {
    apps[app]?.removeValue(forKey: id) != nil
  }
}
