/// `limits.on_limit`: what happens to a job over its device's rate.
package enum RateLimitPolicy: String, Sendable {
  /// It comes back through the retry queues when there is room.
  case delay
  /// It ends as `throttled`.
  case drop
}
