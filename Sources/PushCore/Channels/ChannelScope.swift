/// Whose channels: an app's, in one environment. A channel of one scope is unknown in every other.
package struct ChannelScope: Hashable, Sendable, CustomStringConvertible {
  /// The bundle id, without a suffix.
  package let app: String
  package let environment: APNsEnvironment

  /// nil: the app is no bundle id (letters, digits, dots, hyphens and underscores, at most 200 bytes).
  package init?(app: String, environment: APNsEnvironment) {
    guard app.utf8.count <= Limits.appBytesMaximum, HeaderText.isName(app.utf8.span) else { return nil }
    self.app = app
    self.environment = environment
  }

  package var description: String { "\(app) in \(environment.name)" }

  /// How many channels Apple lets an app have in an environment.
  package static let channelsMaximum = 10_000
}
