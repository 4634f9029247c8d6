/// What `AMQPConnectionState` wants done. One input asks for one of these.
enum AMQPConnectionAction: Equatable {
  case none
  case sendProtocolHeader
  case sendStartOK
  case sendTuneOKAndOpen(AMQPTuning)
  case tell(AMQPEvent)
  case sendChannelCloseOK(channel: UInt16, tell: AMQPEvent)
  case sendFlowOK(channel: UInt16, isActive: Bool)
  /// Answer the broker's goodbye, then end with this error.
  case sendCloseOKAndEnd(AMQPError)
  /// Our goodbye was answered: end.
  case end
}

/// What a heartbeat's tick wants done.
enum AMQPHeartbeatAction: Equatable {
  case none
  case sendHeartbeat
  case giveUp(silentMilliseconds: Int64)
}
