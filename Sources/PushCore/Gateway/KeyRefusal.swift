/// Why a request's app or environment is refused.
package enum KeyRefusal: Error, Hashable, Sendable {
  case otherApp, otherEnvironment
  case unknownEnvironment, noApp, badApp

  /// true: the key does not allow it (403). false: the request is wrong (400).
  package var isForbidden: Bool {
    switch self {
    case .otherApp, .otherEnvironment: true
    case .unknownEnvironment, .noApp, .badApp: false
    }
  }

  package var text: String {
    switch self {
    case .otherApp: "the key is for another app"
    case .otherEnvironment: "the key is for the other environment"
    case .unknownEnvironment: "environment must be production or sandbox"
    case .noApp: "the key has no app: name one with ?app="
    case .badApp: "app must be a bundle id"
    }
  }
}
