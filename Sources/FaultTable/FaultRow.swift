/// A row of the fault table: a fault of APNs, and what must still hold.
package enum FaultRow: String, CaseIterable, Sendable {
  case none = "fault-free"
  case goAway = "goaway"
  case refusedSome = "refused-1"
  case refusedHalf = "refused-50"
  case cut
  case streams
  case blackHole = "black-hole"
  case unavailable
  case window
  case handshake

  /// The fault in words.
  package var fault: String {
    switch self {
    case .none: "nothing"
    case .goAway: "GOAWAY every 1,000 requests"
    case .refusedSome: "REFUSED_STREAM for 1 %"
    case .refusedHalf: "REFUSED_STREAM for 50 %"
    case .cut: "connection cut every 2,000 requests, answers missing"
    case .streams: "SETTINGS 1000 → 1 → 1000"
    case .blackHole: "black hole on one of two connections"
    case .unavailable: "503 for one of two credentials"
    case .window: "window withheld"
    case .handshake: "TLS handshake fails"
    }
  }

  /// The simulator's faults for the time of the fault. `interval`: requests between two of a kind.
  func faults(scale: FaultScale) -> [String] {
    switch self {
    case .none, .streams: []
    case .goAway: ["after=\(scale.requestsToGoAway - 1),goaway=this"]
    case .refusedSome: ["share=0.01,reset=7"]
    case .refusedHalf: ["share=0.5,reset=7"]
    case .cut: ["after=\(scale.requestsToGoAway * 2 - 1),drop,processed"]
    case .blackHole: ["connection=2,silence", "no-ping-ack"]
    case .unavailable: ["topic=\(PacedBroker.apps[0]),status=503,reason=ServiceUnavailable"]
    case .window: ["withhold-window"]
    case .handshake: ["handshake=fail"]
    }
  }

  var appCount: Int { self == .unavailable ? 2 : 1 }

  var connectionsMaximum: Int {
    switch self {
    case .streams: 1
    case .blackHole: 2
    case .none, .goAway, .refusedSome, .refusedHalf, .cut, .unavailable, .window, .handshake: 8
    }
  }
}
