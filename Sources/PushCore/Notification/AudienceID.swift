/// Names a job for an audience: two apps may choose the same id, and so may one app in both environments.
package struct AudienceID: Hashable, Sendable {
  package let scope: AppScope
  private let name: ByteText

  /// - Parameter id: the job's id.
  package init(_ id: String, in scope: AppScope) {
    self.scope = scope
    name = ByteText(id)
  }

  /// The job that a page or another part of it names; nil: its app is no bundle id.
  package init?(parentOf job: borrowing PushJob) {
    let bytes = job.bytes
    guard
      let scope = AppScope(app: String(decoding: bytes[job.app.range], as: UTF8.self), environment: job.environment)
    else { return nil }
    self.init(String(decoding: bytes[job.parentID.range], as: UTF8.self), in: scope)
  }

  package var id: String { name.text }
}
