/// Bounds that are not configurable, each with its reason.
package enum Limits {
  /// A job's body: twice the size of 1000 tokens of 256 digits, a payload of 5120 bytes and 2 KiB of meta.
  package static let jobBytesMaximum = 512 * 1024
  /// Up to this size the worker writes the dead letter of a job that is too large, with its reason; the broker itself moves larger ones. It
  /// is also the maximum that `herald dead-letters` reads and replays.
  package static let deadLetterBytesMaximum = 8 << 20
  /// Why a job is refused for its size.
  package static func refusal(ofJobBytes count: Int) -> String {
    "job of \(count) bytes; at most \(jobBytesMaximum) are taken"
  }
  /// How long an end without an answer of APNs is kept, for other deliveries of its message and copies that were published twice: as long as
  /// the longest usual delay of a retry queue.
  package static let fateSeconds: Int64 = 600
  /// `id`, and the message id that may replace it.
  package static let idBytesMaximum = 128
  /// A page's id is its parent's, a slash, and its number; of one that answers a late token `/late/` and a device's id.
  package static let pageNameBytesMaximum = 6 + nameBytesMaximum
  /// A device's id, a user, an activity.
  package static let nameBytesMaximum = 128
  /// A segment's code.
  package static let codeBytesMaximum = 64
  /// Digits of a device token as apps have them today: of a name that long it is known that a token was meant.
  static let tokenDigitsUsual = 64
  /// `app` goes into a path, a header, a metric label and the last word of a routing key (255 bytes in all).
  package static let appBytesMaximum = 200
  /// `topic`: an app and the longest suffix.
  package static let topicBytesMaximum = 255
  /// `credential`.
  package static let credentialNameBytesMaximum = 64
  /// A push type that this version does not know goes into a header.
  package static let pushTypeBytesMaximum = 64
  /// `collapse_id`: Apple's limit.
  package static let collapseIDBytesMaximum = 64
  /// `meta` is copied into every outcome of the job.
  package static let metaBytesMaximum = 2048
  /// Hex digits of a device token. Apple guarantees no length; these bounds are far from any seen.
  package static let tokenDigitsMinimum = 8
  package static let tokenDigitsMaximum = 256
  /// A broadcast channel's id, base64.
  package static let channelBytesMaximum = 128
  /// Targets of one job.
  package static let targetsMaximum = 1000
  /// A device's tag: its name, and a text that it holds.
  package static let tagNameBytesMaximum = 64
  package static let tagTextBytesMaximum = 256
  /// `attributes-type` of a Live Activity, as the app's code names it.
  package static let attributesTypeBytesMaximum = 128
  /// Levels of objects and arrays inside a value: one bit each in the scanner's stack.
  package static let jsonDepthMaximum = 64
  /// A routing key: AMQP's short string.
  package static let routingKeyBytesMaximum = 255
  /// An invalid job's `to` is repeated in its outcome up to this length.
  package static let invalidTargetBytesMaximum = 2048
  /// Eleven digits of Unix seconds reach the year 5138; more are milliseconds.
  package static let unixSecondsMaximum: Int64 = 100_000_000_000
  /// The largest count that a header brings: attempts, deliveries. A larger one counts as this.
  package static let headerCountMaximum: UInt32 = 1_000_000
  /// The latest time that is taken from outside, Unix milliseconds: exact in JSON and in Lua, and sums with it cannot overflow.
  package static let unixMillisecondsMaximum: Int64 = 1 << 53
  /// `sequence`: the largest number up to which a JSON reader that has only doubles, and Redis' Lua, know each one.
  package static let sequenceMaximum: Int64 = 1 << 53
  /// The maximum time that an admitted job waits for room in its pool before it goes to the retry queues.
  package static let roomWaitMilliseconds: Int64 = 10_000
}
