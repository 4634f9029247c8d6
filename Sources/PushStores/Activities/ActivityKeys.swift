package import PushCore

/// The names of an activity's keys in Redis, below the hash tag of its app's devices. They expire when the activity is
/// forgotten.
package struct ActivityKeys: Hashable, Sendable {
  private let tag: String

  /// - Parameter tag: the prefix of every name, with the hash tag.
  package init(tag: String) {
    self.tag = tag + "a:"
  }

  /// Sorted set: an app's activities by start time, Unix milliseconds.
  package var index: String { tag + "index" }
  /// Hash of one activity: its fields are `ActivityField`.
  package func activity(_ id: ActivityID) -> String { tag + "h:" + id.text }
  /// Set: the indexes of chunks that have members, in decimal.
  package func chunks(_ id: ActivityID) -> String { tag + "c:" + id.text }
  /// Hash: an ordinal's place in its chunk (two bytes, little-endian) → its `ActivityMember`. Only members with an
  /// update token: the receivers of an update are the fields of one hash.
  package func live(_ chunk: Int, _ id: ActivityID) -> String { tag + "l:\(chunk):" + id.text }
  /// The same for all other members.
  package func rest(_ chunk: Int, _ id: ActivityID) -> String { tag + "r:\(chunk):" + id.text }
  /// Hash of update tokens whose hash has this low byte: a token's hash (eight bytes, little-endian) → the ordinal that registered it last (four
  /// bytes, little-endian), whose member may have another token since.
  package func tokens(_ hash: UInt64, _ id: ActivityID) -> String { tag + "t:\(hash & 0xFF):" + id.text }
  /// Sorted set of one device: the ids of activities that it is a member of, by when they are forgotten (Unix
  /// milliseconds). A forget finds them here.
  package func memberships(_ ordinal: UInt32) -> String { tag + "d:\(ordinal)" }
}

/// The fields of an activity's hash. The others change only together with the first, so only the first is compared; but the jobs of an
/// activity that is not known change alone, and are compared too.
enum ActivityField: String, CaseIterable {
  /// `ActivityState`.
  case state = "s"
  /// `ActivityJobs`.
  case jobs = "j"
  /// The newest content state, a JSON object.
  case contentState = "c"
  /// The newest update or end as a job, the source of late pushes.
  case body = "b"
  /// `ActivityLeaves`.
  case leaves = "l"
  /// `ActivityPast`.
  case past = "p"
}
