/// The APNs environment of a device token. In the other environment, the token is a `BadDeviceToken`.
package enum APNsEnvironment: UInt8, CaseIterable, Sendable {
  case production
  case sandbox

  /// The word in jobs, outcomes, routing keys and the configuration.
  package var name: String {
    switch self {
    case .production: "production"
    case .sandbox: "sandbox"
    }
  }
  /// nil: no such word.
  package init?(name: String) {
    guard let environment = APNsEnvironment.allCases.first(where: { $0.name.hasBytes(of: name) }) else { return nil }
    self = environment
  }
}
