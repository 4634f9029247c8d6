/// One request as the ledger keeps it.
public struct LedgerEntry: Hashable, Sendable {
  /// What happened to the request's answer.
  public enum Ending: String, Sendable {
    /// The answer was passed to the connection.
    case answered
    /// The stream had ended before its answer.
    case gone
    /// A fault replaced the answer.
    case reset, dropped, silent
    /// GOAWAY named an earlier stream: the client may send it again elsewhere.
    case unprocessed
  }

  /// The number of this request, from 1.
  public var number: Int
  /// From the request, or generated for it.
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
  /// HTTP status of the answer, even if it was not sent.
  public var status: Int
  /// `reason` of a refusal.
  public var reason: String?
  /// What happened to the answer.
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
