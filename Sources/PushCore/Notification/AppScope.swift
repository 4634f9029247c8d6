/// An app in one environment. Devices, channels and activities belong to one scope and are unknown in all others.
package struct AppScope: Hashable, Sendable, CustomStringConvertible {
  /// The bundle id, without a suffix.
  package let app: String
  package let environment: APNsEnvironment

  /// nil: not a bundle id (letters, digits, dots, hyphens and underscores, at most 200 bytes).
  package init?(app: String, environment: APNsEnvironment) {
    guard app.utf8.count <= Limits.appBytesMaximum, HeaderText.isName(app.utf8.span) else { return nil }
    self.app = app
    self.environment = environment
  }

  package var description: String { "\(app) in \(environment.name)" }
}
