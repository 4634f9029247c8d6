/// What a simulated Redis reports to an auditor.
package enum SimulatedRedisObservation {
  /// A script ran.
  case script(SimulatedRedisCall, name: String)
  /// A client ran a command on keys, outside a script.
  case command(SimulatedRedisCall)
  /// A command that the simulation does not support; the client gets Redis' unknown-command error.
  case unknownCommand([[UInt8]])
  /// A script without a model.
  case unknownScript(text: [UInt8], digest: [UInt8])
  /// A script or command needs something that the simulation does not model.
  case unmodelled(what: String, why: String)
  /// A client violated the protocol.
  case protocolViolation(SimulatedConnectionID, [UInt8])

  /// The run proves nothing about the worker: the worker or the simulation is wrong.
  package var isViolation: Bool {
    switch self {
    case .script, .command: false
    case .unknownCommand, .unknownScript, .unmodelled, .protocolViolation: true
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
