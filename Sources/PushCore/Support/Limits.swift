/// Bounds that do not come from the configuration. Each has its name here and its reason beside it.
package enum Limits {
  /// A job's body: 1000 tokens of 256 digits, a payload of 5120 bytes and 2 KiB of meta fit twice.
  package static let jobBytesMaximum = 512 * 1024
  /// A larger job's dead letter is made by us, with its reason, up to here; beyond it the broker itself moves the job. As
  /// much as `herald dead-letters` reads and replays.
  package static let deadLetterBytesMaximum = 8 << 20
  /// Why a job is too large.
  package static func refusal(ofJobBytes count: Int) -> String {
    "job of \(count) bytes; at most \(jobBytesMaximum) are taken"
  }
  /// `id`, and the message id in its place.
  package static let idBytesMaximum = 128
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
  /// Hex digits of a device token. Apple promises no length; these bounds are far from any seen.
  package static let tokenDigitsMinimum = 8
  package static let tokenDigitsMaximum = 256
  /// A broadcast channel's id, base64.
  package static let channelBytesMaximum = 128
  /// Targets of one job.
  package static let targetsMaximum = 1000
  /// Levels of objects and arrays inside a value: one bit each in the scanner's stack.
  package static let jsonDepthMaximum = 64
  /// A routing key: AMQP's short string.
  package static let routingKeyBytesMaximum = 255
  /// `to` of an invalid job is repeated in its outcome up to this length.
  package static let invalidTargetBytesMaximum = 2048
  /// Eleven digits of Unix seconds reach the year 5138; more are milliseconds.
  package static let unixSecondsMaximum: Int64 = 100_000_000_000
  /// The longest that an admitted job waits for room in its pool before it goes to the retry queues.
  package static let roomWaitMilliseconds: Int64 = 10_000
}
