import PushCore

/// Stores the outcomes that Redis missed, some of them each turn.
struct RedisCatchUp {
  private let turnMaximum: Int
  /// Outcomes stored so far.
  private(set) var storedCount: UInt64 = 0

  init(turnMaximum: Int) {
    self.turnMaximum = turnMaximum
  }

  /// true: more may be left, for the next turn.
  mutating func turn(_ local: inout LocalAdmissions, _ nodes: inout RedisAdmissionNodes, now: Now) -> Bool {
    guard !local.isEmpty, nodes.trouble == nil else { return false }
    for _ in 0..<turnMaximum {
      guard let (request, outcome) = local.takeRemembered() else { return false }
      let unconfirmed = UnconfirmedOutcome(request: request, outcome: outcome)
      guard nodes.send(unconfirmed, isLate: true, to: nodes.node(for: request)) else {
        local.remember(outcome, of: request, now: now)
        return false
      }
      storedCount &+= 1
    }
    return true
  }
}
