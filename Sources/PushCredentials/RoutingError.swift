/// Why no credential serves a job.
package struct RoutingError: Error, Hashable, Sendable {
  /// The field that is wrong: `app`, `credential` or `environment`.
  package var field: String
  /// The rule, with what to do.
  package var detail: String

  package init(field: String, detail: String) {
    self.field = field
    self.detail = detail
  }
}
