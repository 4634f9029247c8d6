/// Whose an outcome is, by its JSON.
package enum OutcomeScope {
  /// nil: no outcome, or of a job whose app could not be read.
  package static func of(_ outcome: [UInt8]) -> AppScope? {
    guard let members = try? JSONMembers(outcome.span), let app = members["app"]?.text,
      let word = members["environment"]?.text,
      let environment = APNsEnvironment.allCases.first(where: { $0.name == word })
    else { return nil }
    return AppScope(app: app, environment: environment)
  }
}
