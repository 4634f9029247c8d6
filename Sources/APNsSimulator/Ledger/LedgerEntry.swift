/// One request as the ledger keeps it.
public struct LedgerEntry: Hashable, Sendable {
  /// What became of the request's answer.
  public enum Ending: String, Sendable {
    /// The answer was handed to the connection.
    case answered
    /// The stream was gone before its answer.
    case gone
    /// A fault took the answer's place.
    case reset, dropped, silent
    /// GOAWAY named an earlier stream: the client may send it again elsewhere.
    case unprocessed
  }

  /// The number of this request, from 1.
  public var number: Int
  /// As the request gave it, or as it was made for it.
  public var apnsID: String
  /// The device token, or the channel id of a broadcast.
  public var target: String
  /// `apns-topic`, or the app of a broadcast.
  public var topic: String
  /// `apns-push-type`.
  public var pushType: String
  /// The connection's number in the ledger.
  public var connection: Int
  /// The HTTP/2 stream.
  public var stream: Int32
  /// Unix milliseconds.
  public var receivedAt: Int64
  /// HTTP status of the answer, whether it was sent or not.
  public var status: Int
  /// `reason` of a refusal.
  public var reason: String?
  /// What became of the answer.
  public var ending: Ending

  package init(
    number: Int, apnsID: String, target: String, topic: String, pushType: String, connection: Int, stream: Int32,
    receivedAt: Int64, status: Int, reason: String?, ending: Ending
  ) {
    self.number = number
    self.apnsID = apnsID
    self.target = target
    self.topic = topic
    self.pushType = pushType
    self.connection = connection
    self.stream = stream
    self.receivedAt = receivedAt
    self.status = status
    self.reason = reason
    self.ending = ending
  }

  func write(to json: inout JSONText) {
    json.beginObject()
    json.field("number", number)
    json.field("apns_id", apnsID)
    json.field("target", target)
    json.field("topic", topic)
    json.field("push_type", pushType)
    json.field("connection", connection)
    json.field("stream", Int(stream))
    json.field("received_at", receivedAt)
    json.field("status", status)
    json.field("reason", reason)
    json.field("ending", ending.rawValue)
    json.endObject()
  }
}
