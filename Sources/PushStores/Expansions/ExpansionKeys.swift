import PushCore

/// The names of an audience's keys in Redis: found by the job's id alone, in one slot of a cluster.
package struct ExpansionKeys: Hashable, Sendable {
  private let tag: String

  /// - Parameter id: the job's.
  package init(prefix: String, id: String) {
    tag = "\(prefix){job:\(id)}:"
  }

  /// Hash: what `ExpansionState` has, and the facts of the job.
  package var state: String { tag + "state" }
  /// The job's body; gone once the job is completed.
  package var body: String { tag + "body" }
  /// Hash: page → `PageEnd` letters, of pages with devices that have no end.
  package var pages: String { tag + "pages" }
  /// Hash: page → its ordinals in decimal, with commas.
  package var ordinals: String { tag + "ordinals" }
}
