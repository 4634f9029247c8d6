package import PushCredentials

/// Whether a pool took a request.
package enum SendDecision: Hashable, Sendable {
  /// It did; an answer with the send's ticket follows in any case.
  case sent
  /// Its channel's storage policy is not known yet: `nextReleased` returns its ticket later.
  case held
  /// No connection has a free stream or window: try again next turn.
  case noRoom
  /// None has, and none soon will: the pool cannot connect, or APNs asked it to send less.
  case stalled
  /// The credential, topic or environment is paused: nothing is sent for about this long.
  case paused(retryAfterMilliseconds: Int64)
  /// The job is invalid for its channel, which was not known before.
  case refused(RoutingError)
}
