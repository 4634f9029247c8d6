/// A parsed job: its bytes, and where each field is in them.
///
/// A value is reused for many jobs: its buffers keep their capacity, so a lane's steady state
/// allocates nothing. Fields that had to be changed (JSON escapes, upper-case tokens, a derived topic) come after the
/// message's own bytes, which stay as the producer wrote them.
package struct PushJob: Sendable, ~Copyable {
  /// The kind of `to`.
  package enum TargetKind: UInt8, Sendable {
    case token, tokens, channel, activity, devices, users, segment
    /// Devices of an audience by their ordinals: a page, which only Herald writes.
    case page

    /// The registry finds its devices: such a job becomes pages.
    package var isAudience: Bool {
      switch self {
      case .activity, .devices, .users, .segment: true
      case .token, .tokens, .channel, .page: false
      }
    }
  }

  /// The message body, then the bytes of changed fields.
  package var bytes: [UInt8] = []
  /// Length of the message body in `bytes`.
  package var bodyCount = 0

  /// 1–128 bytes; the idempotency key. Of a page: its parent's id, a slash, and its number.
  package var id = ByteRange.empty
  /// The id in the body, without quotes and with its escapes; empty if the message id replaces it.
  package var idText = ByteRange.empty
  /// Of a page: the id of its audience's job.
  package var parentID = ByteRange.empty
  package var app = ByteRange.empty
  package var pushType = PushType.alert
  /// The push type's bytes for `apns-push-type`.
  package var pushTypeName = ByteRange.empty
  package var environment = APNsEnvironment.production
  package var targetKind = TargetKind.token
  /// One range per target: lower-case hex of a device token, or the channel id; at least one. Of an audience: the names of devices or
  /// users, or the segment's code. Of a page: the ordinals' digits, and the tokens once they are known.
  package var targets: [ByteRange] = []
  /// The whole JSON value of `to`, for writing a copy with other targets.
  package var to = ByteRange.empty
  package var page = AudiencePage()
  /// The id of the Live Activity that the job starts, updates or ends; empty: none.
  package var activity = ByteRange.empty
  /// The same in the body, without quotes and with its escapes.
  package var activityText = ByteRange.empty
  /// The event of a Live Activity's payload.
  package var event: ActivityEvent?
  /// The activity's revision in the payload; 0: Herald has not assigned one yet.
  package var revision: UInt32 = 0
  /// That revision ends the activity for some devices only.
  package var isLeave = false
  /// The title and body of the alert, JSON strings, for devices that cannot show the activity; empty: there is none.
  package var fallback = (title: ByteRange.empty, body: ByteRange.empty)
  /// Of an audience: only count its devices.
  package var isDryRun = false
  /// The job's own topic, or app and suffix.
  package var topic = ByteRange.empty
  /// The job's `credential`; empty: the app decides.
  package var credential = ByteRange.empty
  /// 10, 5 or 1; nil sends no header.
  package var priority: UInt8?
  /// Unix seconds; 0: one try, nothing stored; nil: no header (of a broadcast: its channel's expiration).
  package var expiration: Int64?
  /// At most 64 bytes; empty sends no header.
  package var collapseID = ByteRange.empty
  /// Of two updates of an activity, or two jobs with one collapse id, the one with the larger number is newer; nil: not numbered.
  package var sequence: Int64?
  /// Unix milliseconds.
  package var tokenRegisteredAt: Int64?
  /// The JSON object, verbatim; empty: none.
  package var meta = ByteRange.empty
  /// The JSON object, verbatim: the request's body.
  package var payload = ByteRange.empty

  package init() {}

  /// A page that starts an activity, or is sent as an alert in place of that.
  package var isStartPage: Bool {
    !page.isEmpty && page.late.isEmpty && !activity.isEmpty && (event == .start || pushType == .alert)
  }

  /// The topic is the app, or the app with a suffix, such as `com.example.app.voip`. It may be another app's: see `TopicOwners`.
  package var hasTopicOfItsApp: Bool {
    if topic.isEmpty || topic == app { return true }
    guard topic.count >= app.count else { return false }
    let all = bytes.span
    let end = Int(topic.start) + Int(app.count)
    return ByteHash.areSame(all.extracting(Int(topic.start)..<end), all.extracting(app.range))
      && (topic.count == app.count || all[end] == ASCII.dot)
  }

  /// The topic that APNs gets.
  package var topicText: String { String(decoding: bytes[(topic.isEmpty ? app : topic).range], as: UTF8.self) }

  /// The body has more than one target: a copy for one of them needs its own `to`.
  package var namesSeveral: Bool { targets.count > 1 || page.count > 1 }
}
