/// What one client connection did.
public struct LedgerConnection: Hashable, Sendable {
  /// From 1, in the order of acceptance.
  public var number: Int
  /// The client's address and port.
  public var peer: String
  /// Unix milliseconds.
  public var openedAt: Int64
  /// Unix milliseconds; nil: it is open.
  public var closedAt: Int64?
  /// Why it ended; nil if it ended in order.
  public var error: String?
  /// Requests that were received completely.
  public var requests = 0
  /// The maximum of streams open at once.
  public var streamsInFlightMaximum = 0
  /// PING frames of the client.
  public var pings = 0
  /// RST_STREAM frames of the client: requests that it cancelled.
  public var cancels = 0
  /// Streams that the client opened above the limit in the simulator's SETTINGS.
  public var streamsOverLimit = 0
  /// How often the provider token changed.
  public var tokenChanges = 0
  /// GOAWAY frames of the client.
  public var goAwaysReceived = 0
  /// Frames of the client that break the protocol.
  public var invalidFrames = 0

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
