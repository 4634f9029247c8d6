/// A Live Activity's push as a device reads it.
package struct ActivityPush: Hashable, Sendable {
  package enum Event: String, Sendable {
    case start, update, end
  }

  package var event: Event
  /// Unix seconds.
  package var timestamp: Int64
  /// JSON, byte for byte; nil: the push has none.
  package var contentState: String?
  /// Unix seconds.
  package var staleDate: Int64?
  /// Unix seconds.
  package var dismissalDate: Int64?
  package var attributesType: String?
  /// JSON, byte for byte.
  package var attributes: String?
  /// The activity's id, where `attributes` has one at the app's place.
  package var activity: String?
  /// The broadcast channel that a start names.
  package var channel: String?
  package var hasAlert: Bool

  /// Reads a payload. nil: event or timestamp is missing, so a device ignores it.
  /// - Parameter idPath: where in `attributes` the app keeps the activity's id.
  package init?(_ payload: [UInt8], idPath: [String]) {
    guard let aps = JSONValue(payload)?["aps"], let event = aps["event"]?.string.flatMap({ Event(rawValue: $0) }),
      let timestamp = aps["timestamp"]?.integer
    else { return nil }
    self.event = event
    self.timestamp = timestamp
    contentState = JSONValue.text(at: ["aps", "content-state"], in: payload)
    staleDate = aps["stale-date"]?.integer
    dismissalDate = aps["dismissal-date"]?.integer
    attributesType = aps["attributes-type"]?.string
    attributes = JSONValue.text(at: ["aps", "attributes"], in: payload)
    activity = idPath.reduce(aps["attributes"]) { $0?[$1] }?.string.flatMap { $0.isEmpty ? nil : $0 }
    channel = aps["input-push-channel"]?.string
    hasAlert = aps["alert"] != nil
  }
}
