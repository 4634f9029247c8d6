/// What a simulated Redis reports to an auditor.
package enum SimulatedRedisObservation {
  /// A script ran.
  case script(SimulatedRedisCall, SimulatedRedisScript)
  /// A client ran a command on keys, outside a script.
  case command(SimulatedRedisCall)
  /// A command of a client or a script that the simulation does not support, or not with these arguments.
  case unsupportedCommand([[UInt8]])
  /// A script ended with an error of Lua: it is wrong, or met data that it cannot handle.
  case failedScript(String)
  /// A client violated the protocol.
  case protocolViolation(SimulatedConnectionID, [UInt8])

  /// The run proves nothing about the worker: the worker or the simulation is wrong.
  package var isViolation: Bool {
    switch self {
    case .script, .command: false
    case .unsupportedCommand, .failedScript, .protocolViolation: true
    }
  }
}

/// A call that ran, even if its reply was lost.
package struct SimulatedRedisCall {
  package let connection: SimulatedConnectionID
  package let database: Int
  package let keys: [[UInt8]]
  /// A script's ARGV, or all words of a command.
  package let arguments: [[UInt8]]
  package let reply: SimulatedRedisReply
  /// Redis' clock.
  package let unixMicroseconds: Int64
}
