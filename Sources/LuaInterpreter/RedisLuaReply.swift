/// A reply as scripts see and return it: RESP2's kinds.
package indirect enum RedisLuaReply: Equatable, Sendable {
  case status([UInt8])
  /// Without the leading `-`.
  case error([UInt8])
  case integer(Int64)
  case bulk([UInt8])
  case null
  case array([RedisLuaReply])
}

/// How a run of a script ended.
package enum RedisLuaResult: Equatable, Sendable {
  case returned(RedisLuaReply)
  /// A command failed, and ended the script: Redis' error text.
  case refused([UInt8])
  /// The script is wrong, or met data that it cannot handle: Redis' error text.
  case failed([UInt8])
}

/// The text of a script cannot be compiled: Redis' error text.
package struct RedisLuaSyntaxError: Error {
  package let text: [UInt8]
}
