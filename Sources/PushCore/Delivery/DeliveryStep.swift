/// What a job in flight waits for, for messages and metrics.
package enum DeliveryStep: Int, CaseIterable, Sendable {
  /// The admission store was not asked about it yet.
  case unstarted
  /// The admission store was asked whether it may be sent.
  case admitting
  /// Its credential has no provider token yet.
  case token
  /// No connection of its pool has room.
  case room
  /// Its channel's storage policy is not known yet.
  case channel
  /// APNs has not answered its request.
  case sent
  /// Its end is decided and not published.
  case reporting
  /// The broker has not confirmed the messages about its end.
  case confirm

  /// In metrics.
  package var label: String {
    switch self {
    case .unstarted: "unstarted"
    case .admitting: "admitting"
    case .token: "token"
    case .room: "room"
    case .channel: "channel"
    case .sent: "sent"
    case .reporting: "reporting"
    case .confirm: "confirm"
    }
  }
}

extension DeliveryStep: CustomStringConvertible {
  package var description: String {
    switch self {
    case .unstarted: "unstarted"
    case .admitting: "admitting"
    case .token: "waiting for a token"
    case .room: "waiting for room"
    case .channel: "waiting for its channel"
    case .sent: "sent"
    case .reporting: "reporting"
    case .confirm: "waiting for a confirm"
    }
  }
}
