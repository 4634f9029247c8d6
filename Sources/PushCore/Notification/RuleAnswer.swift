/// The answer of a strict APNs to a request that breaks a rule. Tests compare this prediction with the
/// simulator.
package enum RuleAnswer: Hashable, Sendable {
  /// It refuses the request with this reason.
  case refuses(APNsReason)
  /// It accepts the request, and the device silently drops the push or shows it wrong.
  case takes
  /// No request is possible: the rule is about the job itself.
  case noRequest
}
