/// What `AMQPConnectionState` asks for: one action for each input.
enum AMQPConnectionAction: Equatable {
  case none
  case sendProtocolHeader
  case sendStartOK
  case sendTuneOKAndOpen(AMQPTuning)
  case tell(AMQPEvent)
  case sendChannelCloseOK(channel: UInt16, tell: AMQPEvent)
  case sendFlowOK(channel: UInt16, isActive: Bool, tell: AMQPEvent?)
  /// Answer the broker's connection.close, then end with this error.
  case sendCloseOKAndEnd(AMQPError)
  /// Our connection.close was answered: end.
  case end
}

/// What a heartbeat's tick asks for.
enum AMQPHeartbeatAction: Equatable {
  case none
  case sendHeartbeat
  case giveUp(silentMilliseconds: Int64)
}
