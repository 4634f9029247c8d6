import PushStores

/// Why the gateway's backend could not carry out a request.
package enum GatewayFailure: Error, Sendable, CustomStringConvertible {
  /// Temporary: a later attempt may succeed.
  case unavailable(String)
  /// The filter cannot be evaluated.
  case filter(String)

  init(_ failure: SegmentFailure) {
    switch failure {
    case .redis, .unreadable, .foreign: self = .unavailable("\(failure)")
    case .filter: self = .filter("\(failure)")
    }
  }

  package var description: String {
    switch self {
    case .unavailable(let text), .filter(let text): text
    }
  }
}
