package import PushCore

/// The names of an audience's keys in Redis, all in one slot of a cluster. No two jobs share one: an app's name has neither a colon nor a
/// brace, so that a name has one reading from its end, whatever is in the id.
package struct ExpansionKeys: Hashable, Sendable {
  private let tag: String
  private let own: String

  package init(prefix: String, _ job: AudienceID) {
    tag = ExpansionKeys.tag(prefix, job.id)
    own = "\(tag)\(job.scope.app):\(job.scope.environment.name):"
  }

  private static func tag(_ prefix: String, _ id: String) -> String { "\(prefix){job:\(id)}:" }

  /// Hash: the fields of `ExpansionState`, and the facts of the job.
  package var state: String { own + "state" }
  /// The job's body; deleted when the job is completed.
  package var body: String { own + "body" }
  /// Hash: page → `PageEnd` letters, for pages that have devices without an outcome.
  package var pages: String { own + "pages" }
  /// Hash: page → its ordinals in decimal, separated by commas.
  package var ordinals: String { own + "ordinals" }

  /// State, body, pages and ordinals, and where the build before had them.
  package var all: [String] {
    let names = ["state", "body", "pages", "ordinals"]
    return names.map { own + $0 } + names.map { tag + $0 }
  }

  /// Where the build before had the state of the one job with this id. Since a job of it has other keys, what is left tells its app.
  package static func formerState(prefix: String, id: String) -> String { tag(prefix, id) + "state" }
}
