package import PushCredentials

/// Whether a pool took a request.
package enum SendDecision: Hashable, Sendable {
  /// It did; an answer with the send's ticket follows, whatever happens.
  case sent
  /// What its channel takes is not known yet: `nextReleased` gives its ticket back.
  case held
  /// No connection has a stream or window free: try again next turn.
  case noRoom
  /// None has, nor will one soon: the pool cannot connect, or APNs asked it for less.
  case stalled
  /// The credential, topic or environment is paused: nothing is sent for about this long.
  case paused(retryAfterMilliseconds: Int64)
  /// The job is wrong, which was not known before: its channel does not take it.
  case refused(RoutingError)
}
