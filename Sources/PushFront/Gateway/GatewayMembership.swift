import PushCore
import Synchronization

/// One connection among all: it is counted, is a stranger until it has shown a valid key, and then counts for its key's share.
struct GatewayMembership {
  private let services: GatewayServices
  private(set) var isCounted = false
  /// There are too many connections.
  private(set) var isExcess = false
  /// The id of the first valid key that it has shown; nil: none.
  private(set) var key: String?
  /// Its number in the table of strangers.
  private var number: UInt64?

  init(_ services: GatewayServices) {
    self.services = services
  }

  /// - Parameter close: closes the connection, to make room for another one.
  mutating func join(maximum: Int, close: @escaping @Sendable () -> Void) {
    isCounted = true
    if services.metrics.connections.add(1, ordering: .relaxed).newValue > maximum {
      services.metrics.connectionsRefused.add(1, ordering: .relaxed)
      services.strangers.closeOldest()
    }
    number = services.strangers.add(close)
    isExcess = services.metrics.connections.load(ordering: .relaxed) > maximum
  }

  mutating func leave() {
    guard isCounted else { return }
    isCounted = false
    services.metrics.connections.subtract(1, ordering: .relaxed)
    if let number { services.strangers.remove(number) }
    number = nil
    if let key { services.giveConnection(from: key) }
    key = nil
  }

  /// The connection has shown a valid key. false: the key has too many connections.
  mutating func show(_ shown: APIKey) -> Bool {
    guard isCounted, key == nil else { return true }
    guard services.takeConnection(for: shown.id) else { return false }
    key = shown.id
    if let number { services.strangers.remove(number) }
    number = nil
    return true
  }
}
