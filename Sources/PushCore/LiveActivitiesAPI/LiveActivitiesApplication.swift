/// What an application's code of the Live Activities API stands for: an entry of `gateway.applications`.
package struct LiveActivitiesApplication: Hashable, Sendable {
  /// What a start's alert says where the request does not.
  package struct Alert: Hashable, Sendable {
    package var title: String
    package var body: String

    package init(title: String, body: String) {
      self.title = title
      self.body = body
    }
  }

  /// Where its pushes go.
  package var scope: AppScope
  /// Where a start's `attributes` hold the activity's id; nil: nowhere, and the worker's own setting decides alone.
  package var idAttribute: ActivityIDAttribute?
  package var defaultAlert: Alert?

  package init(scope: AppScope, idAttribute: ActivityIDAttribute? = nil, defaultAlert: Alert? = nil) {
    self.scope = scope
    self.idAttribute = idAttribute
    self.defaultAlert = defaultAlert
  }
}
