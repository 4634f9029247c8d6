package import PushCore
package import PushCredentials
import PushSettings

/// Which credential manages an app's channels.
extension Credentials {
  /// Channels are asked for under the bundle id; broadcasts go to its Live Activities. A key or certificate of either will do.
  private static let topicSuffixes = ["", PushType.liveactivity.topicSuffix]

  /// The place of the credential that sends this request. Channels belong to the app, whoever made them: of several
  /// credentials the first serves, signing keys before certificates.
  package func place(for request: ChannelRequest) throws(RoutingError) -> Int {
    let scope = request.scope
    let listing = all.indices.filter { all[$0]?.configuration.apps.contains(scope.app) == true }
    guard !listing.isEmpty else {
      throw RoutingError(field: "app", detail: "no credential serves \"\(scope.app)\": add it to a credential's apps")
    }
    var fitting = listing.filter { all[$0]?.configuration.environments.contains(scope.environment) == true }
    guard !fitting.isEmpty else {
      throw RoutingError(
        field: "environment",
        detail:
          "no credential serves \"\(scope.app)\" in \(scope.environment.name): add it to a credential's environments")
    }
    if let name = request.credential {
      fitting = fitting.filter { all[$0]?.name == name }
      guard !fitting.isEmpty else {
        throw RoutingError(
          field: "credential", detail: "no credential \"\(name)\" serves \"\(scope.app)\" in \(scope.environment.name)")
      }
    }
    let able = fitting.filter { place in
      Credentials.topicSuffixes.contains { all[place]?.serves(topic: scope.app + $0) == true }
    }
    guard let first = able.first(where: { all[$0]?.usesToken == true }) ?? able.first else {
      let names = fitting.compactMap { all[$0]?.name }.joined(separator: ", ")
      throw RoutingError(
        field: "credential", detail: "no topic of \"\(scope.app)\" that has channels belongs to \(names)")
    }
    return first
  }
}
