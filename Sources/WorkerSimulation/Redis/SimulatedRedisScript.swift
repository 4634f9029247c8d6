import LuaInterpreter
import PushLane

/// A script that a client loaded.
package struct SimulatedRedisScript: Sendable {
  /// 40 lowercase hex digits.
  package let digest: [UInt8]
  package let text: [UInt8]

  private static let admission = RedisLuaDigest.text(of: Array(RedisScript.admit.utf8))

  /// It is the script that admits jobs.
  package var isAdmission: Bool { digest == Self.admission }

  /// For a trace: the beginning of its text, as it stands in the source.
  var line: String {
    isAdmission ? "admit" : String(decoding: text.prefix { $0 != 10 }.prefix(60), as: UTF8.self)
  }
}

extension SimulatedRedisReply {
  /// The reply as a script sees it: in RESP2.
  var inScript: RedisLuaReply {
    switch self {
    case .status(let text): .status(text)
    case .error(let text): .error(text)
    case .integer(let number): .integer(number)
    case .bulk(let bytes), .verbatim(let bytes): .bulk(bytes)
    case .double(let number): .bulk(SimulatedRedisNumber.text(of: number))
    case .null, .nullArray: .null
    case .array(let values), .map(let values), .members(let values), .scored(let values): .array(values.map(\.inScript))
    }
  }

  /// What a script returned.
  init(_ reply: RedisLuaReply) {
    switch reply {
    case .status(let text): self = .status(text)
    case .error(let text): self = .error(text)
    case .integer(let number): self = .integer(number)
    case .bulk(let bytes): self = .bulk(bytes)
    case .null: self = .null
    case .array(let values): self = .array(values.map(SimulatedRedisReply.init))
    }
  }
}
