/// Reads the app and environment of an outcome from its JSON.
package enum OutcomeScope {
  private static let keys = KeyTable(["job_id", "app", "environment"])

  /// nil: not an outcome, or its job had no readable app.
  package static func of(_ outcome: [UInt8]) -> AppScope? {
    // The results log has the answers to channel requests too.
    guard let members = try? JSONMembers(outcome.span, keys), members["job_id"] != nil, let app = members["app"]?.text,
      let word = members["environment"]?.text,
      let environment = APNsEnvironment.allCases.first(where: { $0.name == word })
    else { return nil }
    return AppScope(app: app, environment: environment)
  }
}
