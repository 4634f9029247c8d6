/// The keys of a job, version 1.
enum JobKey: UInt8, CaseIterable, Sendable {
  case version, id, app, pushType, environment, to, topic, credential, priority, expiration, collapseID
  case sequence, tokenRegisteredAt, meta, payload, dryRun, parentID, activity, fallback, revision, leave

  /// The keys that a producer may write; only Herald writes the others.
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
    case .sequence: "sequence"
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

/// The result of one pass over a job's bytes: where each field is. `JobParser` makes a job of it.
struct JobFields {
  /// Which keys were present, valid or not: a bit for each.
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
  /// Of a page: its number, start position and epoch.
  var page: Int64?
  var position: Int64 = 0
  var epoch: Int64 = 0
  var isDryRun = false
  /// Of a page for a late token: its device.
  var late: JSONString?
  /// Of a page: those of its devices.
  var fingerprints = ByteRange.empty
  var activity: JSONString?
  /// The alert's title and body.
  var fallback: (title: ByteRange, body: ByteRange)?
  /// Of an activity's job that Herald passes on: its revision's number, and whether that ends the activity for some devices only.
  var revision: Int64?
  var leave: Int64?
  var priority: Int64?
  var expiration: Int64?
  var sequence: Int64?
  var tokenRegisteredAt: Int64?
  var meta = ByteRange.empty
  var payload = ByteRange.empty
  var facts = PayloadFacts()
  /// The first broken rule. The pass goes on, so that the outcome can name the job even if its id comes later.
  var fault: JobError?

  /// Keeps a fault unless there is an earlier one.
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
