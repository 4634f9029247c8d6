/// What a Redis connection tells its owner, in the order in which it happened.
package enum RedisEvent: Sendable {
  /// Greeted, authenticated, scripts loaded: commands can be sent.
  case ready
  /// The answer to the command of this tag. `head` is its first value; the rest is the connection's until the next event.
  case reply(tag: UInt64, head: RedisValue)
  /// The connection was lost before the answer came: the command may have run or not.
  case lost(tag: UInt64)
  /// The connection was lost, or could not be made; the next try is scheduled.
  case disconnected(RedisError)
}
