import PushCore

/// The names of an audience's keys in Redis: derived from the job's id, all in one slot of a cluster.
package struct ExpansionKeys: Hashable, Sendable {
  private let tag: String

  /// - Parameter id: the job's id.
  package init(prefix: String, id: String) {
    tag = "\(prefix){job:\(id)}:"
  }

  /// Hash: the fields of `ExpansionState`, and the facts of the job.
  package var state: String { tag + "state" }
  /// The job's body; deleted when the job is completed.
  package var body: String { tag + "body" }
  /// Hash: page → `PageEnd` letters, for pages that have devices without an outcome.
  package var pages: String { tag + "pages" }
  /// Hash: page → its ordinals in decimal, separated by commas.
  package var ordinals: String { tag + "ordinals" }
}
