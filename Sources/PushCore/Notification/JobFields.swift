/// The keys of a job, version 1.
enum JobKey: UInt8, CaseIterable, Sendable {
  case version, id, app, pushType, environment, to, topic, credential, priority, expiration, collapseID
  case tokenRegisteredAt, meta, payload, dryRun, parentID, activity, fallback, revision, leave

  /// Those that a producer may write; the others are Herald's own.
  static let ofProducers = allCases.filter { $0 != .parentID && $0 != .revision && $0 != .leave }

  /// The key's place in a set.
  var bit: UInt32 { 1 << UInt32(rawValue) }

  /// As written.
  var name: String {
    switch self {
    case .version: "version"
    case .id: "id"
    case .app: "app"
    case .pushType: "push_type"
    case .environment: "environment"
    case .to: "to"
    case .topic: "topic"
    case .credential: "credential"
    case .priority: "priority"
    case .expiration: "expiration"
    case .collapseID: "collapse_id"
    case .tokenRegisteredAt: "token_registered_at"
    case .meta: "meta"
    case .payload: "payload"
    case .dryRun: "dry_run"
    case .parentID: "parent_id"
    case .activity: "activity"
    case .fallback: "fallback"
    case .revision: "revision"
    case .leave: "leave"
    }
  }
}

/// What one pass over a job's bytes found: where each field lies, nothing changed yet. `JobParser` makes a job of it.
struct JobFields {
  /// Which keys were there, right or wrong: a bit for each.
  var seen: UInt32 = 0
  var id: JSONString?
  var app: JSONString?
  var pushType: JSONString?
  var environment: JSONString?
  var topic: JSONString?
  var credential: JSONString?
  var collapseID: JSONString?
  var to = ByteRange.empty
  var targetKind: PushJob.TargetKind?
  var parentID: JSONString?
  /// Of a page: its number, and where it begins.
  var page: Int64?
  var position: Int64 = 0
  var isDryRun = false
  /// Of a page that answers a late token: its device.
  var late: JSONString?
  var activity: JSONString?
  /// The alert's title and body.
  var fallback: (title: ByteRange, body: ByteRange)?
  /// Of an activity's job as Herald sends it on: the number of its revision, and whether that ends it for some devices only.
  var revision: Int64?
  var leave: Int64?
  var priority: Int64?
  var expiration: Int64?
  var tokenRegisteredAt: Int64?
  var meta = ByteRange.empty
  var payload = ByteRange.empty
  var facts = PayloadFacts()
  /// The first rule that was not kept. The pass goes on, so that the outcome can name the job whatever stood first.
  var fault: JobError?

  /// Keeps a fault unless an earlier one is there.
  mutating func fail(_ field: String, _ rule: String) {
    if fault == nil { fault = JobError(field: field, rule: rule) }
  }

  /// Keeps a fault that shows the value at `offset`.
  mutating func fail(_ field: String, _ rule: String, _ bytes: Span<UInt8>, valueAt offset: Int) {
    if fault == nil {
      fault = JobError(field: field, rule: "\(rule), not \(JobError.describe(bytes, valueAt: offset))")
    }
  }
}
