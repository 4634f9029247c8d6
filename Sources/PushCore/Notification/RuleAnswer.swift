/// What a strict APNs says to a request that breaks a rule of ours: what we predict, and what the tests compare with the
/// simulator.
package enum RuleAnswer: Hashable, Sendable {
  /// It refuses the request with this reason.
  case refuses(APNsReason)
  /// It takes the request, and the device drops the push, or shows it wrong, without a word to anybody.
  case takes
  /// There is no request to answer: the rule is about the job itself.
  case noRequest
}
