/// An event for a reader of outcomes.
package enum OutcomeEvent: Sendable {
  /// - Parameters:
  ///   - offset: the outcome's offset in the results log.
  ///   - tag, channel: for `GatewayBackend.acknowledge`, once the outcome is written.
  case outcome(offset: Int64, body: [UInt8], tag: UInt64, channel: UInt16)
  /// The stream begins, or no outcome came for a while.
  case keepAlive
}
