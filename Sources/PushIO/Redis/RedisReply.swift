/// A copy of a reply, for uses that are not hot: commands, shared provider tokens.
package indirect enum RedisReply: Hashable, Sendable {
  case integer(Int64)
  case bulk([UInt8])
  case status(String)
  case error(RedisServerError)
  case null
  case array([RedisReply])

  /// The text of a bulk or status.
  package var text: String? {
    switch self {
    case .bulk(let bytes): String(decoding: bytes, as: UTF8.self)
    case .status(let text): text
    case .integer, .error, .null, .array: nil
    }
  }
}
