/// What a Redis connection reports to its owner, in the order in which it happened.
package enum RedisEvent: Sendable {
  /// Logged in, scripts loaded: commands can be sent.
  case ready
  /// The answer to the command with this tag. `head` is its first value; the connection has the rest until the next event.
  case reply(tag: UInt64, head: RedisValue)
  /// The connection was lost before the answer came: the command may have been executed.
  case lost(tag: UInt64)
  /// The connection was lost, or could not be made; the next try is scheduled.
  case disconnected(RedisError)
}
