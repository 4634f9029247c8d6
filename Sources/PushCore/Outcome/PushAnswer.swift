/// The result of one request to APNs.
package struct PushAnswer: Sendable {
  package enum Kind: Sendable {
    /// APNs answered.
    case response
    /// Surely not processed (above GOAWAY's last stream, REFUSED_STREAM, never written): send it again; it does not count.
    case notProcessed
    /// The connection was lost, or the stream reset, after the request was written: APNs may have accepted it.
    case lost
    /// No answer before the deadline; the stream was cancelled. APNs may have accepted it.
    case timedOut
  }

  package var ticket: Ticket
  package var kind: Kind
  /// HTTP status; 0 unless `kind` is `response`.
  package var status: UInt16 = 0
  /// `reason` of the answer's body; nil if there is none.
  package var reason: APNsReason?
  /// `timestamp` of a 410, Unix milliseconds.
  package var unregisteredAt: Int64?
  /// `apns-unique-id`, which the sandbox gives.
  package var uniqueID: UUIDValue?

  package init(ticket: Ticket, kind: Kind) {
    self.ticket = ticket
    self.kind = kind
  }
}
