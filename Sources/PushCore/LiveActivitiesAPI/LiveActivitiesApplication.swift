/// The app behind an application code of the Live Activities API: an entry of `gateway.applications`.
package struct LiveActivitiesApplication: Hashable, Sendable {
  /// Texts for a start's alert that the request does not have.
  package struct Alert: Hashable, Sendable {
    package var title: String
    package var body: String

    package init(title: String, body: String) {
      self.title = title
      self.body = body
    }
  }

  /// The app and environment that its pushes go to.
  package var scope: AppScope
  /// The field of a start's `attributes` that gets the activity's id; nil: only the worker's own setting applies.
  package var idAttribute: ActivityIDAttribute?
  package var defaultAlert: Alert?

  package init(scope: AppScope, idAttribute: ActivityIDAttribute? = nil, defaultAlert: Alert? = nil) {
    self.scope = scope
    self.idAttribute = idAttribute
    self.defaultAlert = defaultAlert
  }
}
