/// What workers write into the payloads of activities' jobs by their configuration, to find before a job is published what a worker would
/// refuse for it.
package struct ActivityWriting: Sendable {
  /// The place of the activity's id in a start's `attributes`; nil: none.
  package var idAttribute: ActivityIDAttribute?
  /// A state without `stale-date` gets one; nil: it does not.
  package var staleAfterSeconds: Int64?
  /// A start for many devices gets a broadcast channel.
  package var takesChannels: Bool

  /// As long as any.
  private static let channel = ChannelID(text: "AAAAAAAAAAAAAAAAAAAAAA==")
  /// All times until the year 2286 have as many digits.
  private static let timestamp: Int64 = 1_796_000_000

  package init(
    idAttribute: ActivityIDAttribute? = nil, staleAfterSeconds: Int64? = nil, takesChannels: Bool = false
  ) {
    self.idAttribute = idAttribute
    self.staleAfterSeconds = staleAfterSeconds
    self.takesChannels = takesChannels
  }

  /// Throws what a worker finds when it writes into the payload of a parsed job. A start for users or a segment is checked with a channel,
  /// since how many devices they have is not known.
  package func check(_ job: borrowing PushJob) throws(JobError) {
    guard !job.activity.isEmpty, job.targetKind.isAudience else { return }
    let payload = try ActivityPayload(Array(job.bytes[job.payload.range]))
    var edits = ActivityEdits(timestamp: ActivityWriting.timestamp)
    edits.staleAfterSeconds = staleAfterSeconds
    if let idAttribute, let id = ActivityID(String(decoding: job.bytes[job.activity.range], as: UTF8.self)) {
      edits.id = (id, idAttribute)
    }
    let isMany = job.targetKind == .users || job.targetKind == .segment
    if takesChannels, isMany, !payload.hasUpdateWay { edits.inputPushChannel = ActivityWriting.channel?.text }
    try ActivityPayload.check(length: try payload.edited(edits).count, isBroadcast: false)
  }
}
