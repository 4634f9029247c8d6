package import PushCore

/// One of `gateway.applications`: what a client of the Live Activities API means by an application's code.
package struct GatewayApplication: Hashable, Sendable {
  package struct Alert: Hashable, Sendable {
    package var title: String
    package var body: String

    package init(title: String, body: String) {
      self.title = title
      self.body = body
    }
  }

  /// `XXXXX-XXXXX`.
  package var code: String
  /// Where its pushes go.
  package var scope: AppScope
  package var idAttribute: ActivityIDAttribute
  /// nil: a start needs an alert of its own.
  package var defaultAlert: Alert?

  package init(code: String, scope: AppScope, idAttribute: ActivityIDAttribute, defaultAlert: Alert?) {
    self.code = code
    self.scope = scope
    self.idAttribute = idAttribute
    self.defaultAlert = defaultAlert
  }
}
