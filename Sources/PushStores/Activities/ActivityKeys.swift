package import PushCore

/// The names of an activity's keys in Redis, below the hash tag of its app's devices. They end when the activity is forgotten.
package struct ActivityKeys: Hashable, Sendable {
  private let tag: String

  /// - Parameter tag: begins every name, and holds the hash tag.
  package init(tag: String) {
    self.tag = tag + "a:"
  }

  /// Sorted set: an app's activities by their start, Unix milliseconds.
  package var index: String { tag + "index" }
  /// Hash of one activity: its fields are `ActivityField`.
  package func activity(_ id: ActivityID) -> String { tag + "h:" + id.text }
  /// Set: chunks of ordinals that have members, in decimal.
  package func chunks(_ id: ActivityID) -> String { tag + "c:" + id.text }
  /// Hash: an ordinal's place in its chunk (two bytes, little-endian) → its `ActivityMember`. Of those that have an update token: whom an
  /// update goes to is one list of fields.
  package func live(_ chunk: Int, _ id: ActivityID) -> String { tag + "l:\(chunk):" + id.text }
  /// The same of all other members.
  package func rest(_ chunk: Int, _ id: ActivityID) -> String { tag + "r:\(chunk):" + id.text }
}

/// The fields of an activity's hash. All but the first change with it alone, so only the first is compared.
enum ActivityField: String, CaseIterable {
  /// `ActivityState`.
  case state = "s"
  /// `ActivityJobs`.
  case jobs = "j"
  /// The newest content state, a JSON object.
  case contentState = "c"
  /// The newest update or end as a job, from which late pushes are made.
  case body = "b"
  /// The newest end for some devices, the same.
  case leaveBody = "l"
}
