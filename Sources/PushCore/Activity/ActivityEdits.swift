/// The changes that Herald makes to an activity's payload. Everything else stays byte for byte.
package struct ActivityEdits: Sendable {
  /// Unix seconds; replaces the payload's own.
  package var timestamp: Int64
  /// For a start: the id, and its place in `attributes`.
  package var id: (id: ActivityID, attribute: ActivityIDAttribute)?
  /// For a start: the broadcast channel for updates, base64.
  package var inputPushChannel: String?
  /// For an end without one: the content state to show last, a JSON object.
  package var contentState: [UInt8]?
  /// For a start or update without `stale-date`: seconds after the timestamp.
  package var staleAfterSeconds: Int64?

  package init(timestamp: Int64) {
    self.timestamp = timestamp
  }
}
