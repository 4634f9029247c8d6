/// Faults of whole connections while they are set.
package struct ConnectionFaults: Hashable, Sendable {
  /// The client's send window is not opened again, so it stalls after 65,535 bytes.
  package var withholdsWindowUpdates = false
  /// PINGs stay unanswered.
  package var ignoresPings = false
  /// The TLS handshake begins this long after the connection was accepted.
  package var handshakeDelayMilliseconds: Int64 = 0
  /// Instead of the TLS handshake the client gets something that is not TLS, and the connection ends.
  package var failsHandshakes = false
  /// The port is closed: connecting fails at once.
  package var refusesConnections = false

  package init() {}

  package var isEmpty: Bool { self == ConnectionFaults() }

  mutating func add(_ other: ConnectionFaults) {
    withholdsWindowUpdates = withholdsWindowUpdates || other.withholdsWindowUpdates
    ignoresPings = ignoresPings || other.ignoresPings
    handshakeDelayMilliseconds = max(handshakeDelayMilliseconds, other.handshakeDelayMilliseconds)
    failsHandshakes = failsHandshakes || other.failsHandshakes
    refusesConnections = refusesConnections || other.refusesConnections
  }
}
