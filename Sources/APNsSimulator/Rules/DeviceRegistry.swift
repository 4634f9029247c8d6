package import PushCore

/// What the simulated Apple knows about single devices: which are gone, which belong to another topic, how often each was sent to. It
/// starts empty: every well-formed token is a device that accepts everything.
package struct DeviceRegistry: Sendable {
  /// Unregistered device tokens, with the time at which APNs learned of it (Unix milliseconds).
  package var unregistered: [String: Int64] = [:]
  /// Device tokens of the other environment.
  package var foreign: Set<String> = []
  /// The one app topic of a device token.
  package var topics: [String: String] = [:]
  /// Maximum of requests per device and second; nil: no maximum.
  package var requestsPerSecondMaximum: Int?

  private var second: Int64 = 0
  private var counts: [String: Int] = [:]

  package init() {}

  /// nil: the device accepts it.
  package mutating func refusal(token: String, topic: String, now: Now) -> SimulatedAnswer? {
    if foreign.contains(token) { return .badRequest("BadDeviceToken") }
    if let own = topics[token], own != topic { return .badRequest("DeviceTokenNotForTopic") }
    if let timestamp = unregistered[token] {
      return SimulatedAnswer(status: 410, reason: "Unregistered", timestamp: timestamp)
    }
    if let maximum = requestsPerSecondMaximum {
      let current = now.monotonic.nanoseconds / 1_000_000_000
      if current != second {
        second = current
        counts.removeAll(keepingCapacity: true)
      }
      let count = counts[token, default: 0] + 1
      counts[token] = count
      if count > maximum { return SimulatedAnswer(status: 429, reason: "TooManyRequests") }
    }
    return nil
  }
}
