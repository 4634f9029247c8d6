/// What a reader of outcomes hears.
package enum OutcomeEvent: Sendable {
  /// - Parameters:
  ///   - offset: its number in the log.
  ///   - tag, channel: to be acknowledged once it is written.
  case outcome(offset: Int64, body: [UInt8], tag: UInt64, channel: UInt16)
  /// It begins, or nothing came for a while.
  case quiet
}
