/// Which APNs a device token belongs to. A token of one environment is `BadDeviceToken` in the other.
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
}
