/// What Herald writes into an activity's payload. All else stays byte for byte.
package struct ActivityEdits: Sendable {
  /// Unix seconds; takes the place of the payload's own.
  package var timestamp: Int64
  /// Of a start: the id, and where it stands in `attributes`.
  package var id: (id: ActivityID, attribute: ActivityIDAttribute)?
  /// Of a start: the broadcast channel that updates come on, base64.
  package var inputPushChannel: String?
  /// Of an end that has none: the content state to show last, a JSON object.
  package var contentState: [UInt8]?
  /// Of a start or update without `stale-date`: so many seconds behind the timestamp.
  package var staleAfterSeconds: Int64?

  package init(timestamp: Int64) {
    self.timestamp = timestamp
  }
}
