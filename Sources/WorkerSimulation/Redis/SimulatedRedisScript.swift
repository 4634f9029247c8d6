/// A script that a simulated Redis can run: identified by the SHA-1 of its text, run by a model in Swift.
///
/// A model names the SHA-1 of the text that it was written from. A changed script is unknown, and the simulation
/// reports this at once: then update the model, compare it to a real Redis with the differential test, and set the new SHA-1.
package struct SimulatedRedisScript: Sendable {
  package typealias Model =
    @Sendable (SimulatedRedisScriptCall) throws(SimulatedRedisScriptFailure) ->
    SimulatedRedisReply

  /// The name for observers.
  package let name: String
  /// 40 lowercase hex digits.
  package let digest: [UInt8]
  let model: Model

  package init(_ name: String, digest: String, model: @escaping Model) {
    self.name = name
    self.digest = Array(digest.utf8)
    self.model = model
  }
}

/// Why a script failed.
package enum SimulatedRedisScriptFailure: Error {
  /// A command in it failed: Redis' error text.
  case refused([UInt8])
  /// The script needs something that its model lacks: reported as a failure of the run, never answered.
  case unmodelled(String)
}

/// One call of a script: its arguments, and its access to Redis.
package final class SimulatedRedisScriptCall {
  /// KEYS and ARGV.
  package let keys: [[UInt8]]
  package let arguments: [[UInt8]]
  /// `TIME` in the script.
  package let seconds: Int64
  package let microseconds: Int64
  private let digest: [UInt8]
  private let run: (SimulatedRedisCommand, [[UInt8]]) -> SimulatedRedisReply

  init(
    keys: [[UInt8]], arguments: [[UInt8]], unixMicroseconds: Int64, digest: [UInt8],
    run: @escaping (SimulatedRedisCommand, [[UInt8]]) -> SimulatedRedisReply
  ) {
    self.keys = keys
    self.arguments = arguments
    seconds = unixMicroseconds / 1_000_000
    microseconds = unixMicroseconds % 1_000_000
    self.digest = digest
    self.run = run
  }

  /// `KEYS[number]`.
  func key(_ number: Int) throws(SimulatedRedisScriptFailure) -> [UInt8] {
    guard number <= keys.count else { throw .unmodelled("it has no key \(number)") }
    return keys[number - 1]
  }

  /// `ARGV[number]`.
  func argument(_ number: Int) throws(SimulatedRedisScriptFailure) -> [UInt8] {
    guard number <= arguments.count else { throw .unmodelled("it has no argument \(number)") }
    return arguments[number - 1]
  }

  /// `tonumber(ARGV[number])`.
  func number(_ number: Int) throws(SimulatedRedisScriptFailure) -> Double {
    try Self.number(argument(number))
  }

  /// `tonumber` of a text that must be a number.
  static func number(_ text: [UInt8]) throws(SimulatedRedisScriptFailure) -> Double {
    guard let value = SimulatedRedisNumber.luaNumber(text) else { throw .unmodelled("arithmetic on what is no number") }
    return value
  }

  /// `redis.call`, which ends the script if the command fails. `line` is the line in the script's text.
  @discardableResult
  func call(
    _ command: SimulatedRedisCommand, _ arguments: [UInt8]..., line: Int
  ) throws(SimulatedRedisScriptFailure) -> SimulatedRedisReply {
    let reply = attempt(command, arguments)
    if case .error(let text) = reply { throw refusal(text, line: line) }
    return reply
  }

  /// Redis' error for a command that failed in a line of the script.
  func refusal(_ text: [UInt8], line: Int) -> SimulatedRedisScriptFailure {
    .refused(text + Array(" script: ".utf8) + digest + Array(", on @user_script:\(line).".utf8))
  }

  /// `redis.pcall`.
  func attempt(_ command: SimulatedRedisCommand, _ arguments: [[UInt8]]) -> SimulatedRedisReply {
    // The command's name is not used.
    run(command, [[]] + arguments)
  }

  /// `redis.call` of a command that replies a text or null.
  func text(
    _ command: SimulatedRedisCommand, _ arguments: [UInt8]..., line: Int
  ) throws(SimulatedRedisScriptFailure) -> [UInt8]? {
    let reply = attempt(command, arguments)
    switch reply {
    case .bulk(let bytes): return bytes
    case .double(let number): return SimulatedRedisNumber.text(of: number)
    case .error(let text): throw refusal(text, line: line)
    case .status, .integer, .null, .nullArray, .array, .map, .members, .verbatim, .scored: return nil
    }
  }

  /// `redis.call` of a command that replies an integer.
  func integer(
    _ command: SimulatedRedisCommand, _ arguments: [UInt8]..., line: Int
  ) throws(SimulatedRedisScriptFailure) -> Int64 {
    let reply = attempt(command, arguments)
    switch reply {
    case .integer(let number): return number
    case .error(let text): throw refusal(text, line: line)
    case .status, .bulk, .double, .null, .nullArray, .array, .map, .members, .verbatim, .scored:
      throw .unmodelled("\(command.rawValue) gave no integer")
    }
  }
}
