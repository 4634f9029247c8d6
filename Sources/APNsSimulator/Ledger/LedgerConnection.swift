/// What one client connection did.
package struct LedgerConnection: Hashable, Sendable {
  /// From 1, in the order of acceptance.
  package var number: Int
  package var peer: String
  /// Unix milliseconds.
  package var openedAt: Int64
  package var closedAt: Int64?
  /// Why it ended, where it did not end in order.
  package var error: String?
  package var requests = 0
  package var streamsInFlightMaximum = 0
  package var pings = 0
  /// RST_STREAM frames of the client: requests it gave up.
  package var cancels = 0
  /// Streams that the client opened above the limit it was told.
  package var streamsOverLimit = 0
  /// How often the provider token was another than before.
  package var tokenChanges = 0
  package var goAwaysReceived = 0
  package var invalidFrames = 0

  package init(number: Int, peer: String, openedAt: Int64) {
    self.number = number
    self.peer = peer
    self.openedAt = openedAt
  }

  func write(to json: inout JSONText) {
    json.beginObject()
    json.field("number", number)
    json.field("peer", peer)
    json.field("opened_at", openedAt)
    json.key("closed_at")
    if let closedAt { json.value(closedAt) } else { json.null() }
    json.field("error", error)
    json.field("requests", requests)
    json.field("streams_in_flight_max", streamsInFlightMaximum)
    json.field("pings", pings)
    json.field("cancels", cancels)
    json.field("streams_over_limit", streamsOverLimit)
    json.field("token_changes", tokenChanges)
    json.field("goaways_received", goAwaysReceived)
    json.field("invalid_frames", invalidFrames)
    json.endObject()
  }
}
