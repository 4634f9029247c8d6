/// What an auditor sees of a simulated Redis.
package enum SimulatedRedisObservation {
  /// A script was called and answered.
  case script(SimulatedRedisCall, name: String)
  /// A command on keys was run, not by a script.
  case command(SimulatedRedisCall)
  /// A command that the simulation does not know: answered as Redis answers what it does not know.
  case unknownCommand([[UInt8]])
  /// A script whose text no model was written from.
  case unknownScript(text: [UInt8], digest: [UInt8])
  /// A script or command would do what the simulation cannot.
  case unmodelled(what: String, why: String)
  /// A client sent what is no command.
  case nonsense(SimulatedConnectionID, [UInt8])

  /// The run says nothing about the worker then: either the worker or the simulation is wrong.
  package var isLoud: Bool {
    switch self {
    case .script, .command: false
    case .unknownCommand, .unknownScript, .unmodelled, .nonsense: true
    }
  }
}

/// A call that ran, whoever heard its reply.
package struct SimulatedRedisCall {
  package let connection: SimulatedConnectionID
  package let database: Int
  package let keys: [[UInt8]]
  /// Of a script ARGV, of a command all its words.
  package let arguments: [[UInt8]]
  package let reply: SimulatedRedisReply
  /// Redis' own clock.
  package let unixMicroseconds: Int64
}
