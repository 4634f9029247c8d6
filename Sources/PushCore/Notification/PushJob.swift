/// One job as parsed: its bytes, and where each field lies in them.
///
/// A value is meant to be parsed into again and again: its buffers keep their capacity, so a lane's steady state
/// allocates nothing. Fields that had to be changed (JSON escapes, upper-case tokens, a derived topic) stand behind the
/// message's own bytes, which stay as the producer wrote them.
package struct PushJob: Sendable, ~Copyable {
  /// What `to` names.
  package enum TargetKind: UInt8, Sendable {
    case token, tokens, channel, activity, devices, users, segment
  }

  /// The message body, then the bytes of changed fields.
  package var bytes: [UInt8] = []
  /// Length of the message body in `bytes`.
  package var bodyCount = 0

  /// 1–128 bytes; the idempotency key.
  package var id = ByteRange.empty
  package var app = ByteRange.empty
  package var pushType = PushType.alert
  /// The push type's bytes as they go into `apns-push-type`.
  package var pushTypeName = ByteRange.empty
  package var environment = APNsEnvironment.production
  package var targetKind = TargetKind.token
  /// One range per target: lower-case hex of a device token, or the channel id; at least one.
  package var targets: [ByteRange] = []
  /// The whole JSON value of `to`, for writing a copy with other targets.
  package var to = ByteRange.empty
  /// The job's own topic, or app and suffix.
  package var topic = ByteRange.empty
  /// The credential named by the job; empty where the app decides.
  package var credential = ByteRange.empty
  /// 10, 5 or 1; nil sends no header.
  package var priority: UInt8?
  /// Unix seconds; 0 = one try, nothing stored; nil sends no header (of a broadcast: the one that its channel wants).
  package var expiration: Int64?
  /// At most 64 bytes; empty sends no header.
  package var collapseID = ByteRange.empty
  /// Unix milliseconds.
  package var tokenRegisteredAt: Int64?
  /// The JSON object, verbatim; empty where the job has none.
  package var meta = ByteRange.empty
  /// The JSON object, verbatim: the request's body.
  package var payload = ByteRange.empty

  package init() {}
}
