/// A decoded method from a broker. Only rare ones contain text.
enum AMQPServerMethod: Equatable {
  case connectionStart(mechanisms: String, server: String)
  case connectionTune(channelMax: UInt16, frameMax: UInt32, heartbeatSeconds: UInt16)
  case connectionOpenOK
  case connectionClose(code: UInt16, text: String)
  case connectionCloseOK
  case connectionBlocked(reason: String)
  case connectionUnblocked
  case channelOpenOK
  case channelClose(code: UInt16, text: String)
  case channelCloseOK
  case channelFlow(isActive: Bool)
  case exchangeDeclareOK
  case exchangeDeleteOK
  case queueDeclareOK(messageCount: UInt32, consumerCount: UInt32)
  case queueBindOK
  case queueUnbindOK
  case queuePurgeOK(messageCount: UInt32)
  case queueDeleteOK(messageCount: UInt32)
  case qosOK
  case consumeOK
  case cancelOK
  case cancel
  case deliver(tag: UInt64, isRedelivered: Bool)
  case returned(code: UInt16, exchange: String, routingKey: String)
  case acknowledged(sequence: UInt64, isMultiple: Bool)
  case refused(sequence: UInt64, isMultiple: Bool)
  case confirmSelectOK
}

/// Class and method numbers. Source: amqp0-9-1.extended.xml.
enum AMQPMethodID: UInt32 {
  case connectionStart = 0x000A_000A
  case connectionStartOK = 0x000A_000B
  case connectionTune = 0x000A_001E
  case connectionTuneOK = 0x000A_001F
  case connectionOpen = 0x000A_0028
  case connectionOpenOK = 0x000A_0029
  case connectionClose = 0x000A_0032
  case connectionCloseOK = 0x000A_0033
  case connectionBlocked = 0x000A_003C
  case connectionUnblocked = 0x000A_003D
  case channelOpen = 0x0014_000A
  case channelOpenOK = 0x0014_000B
  case channelFlow = 0x0014_0014
  case channelFlowOK = 0x0014_0015
  case channelClose = 0x0014_0028
  case channelCloseOK = 0x0014_0029
  case exchangeDeclare = 0x0028_000A
  case exchangeDeclareOK = 0x0028_000B
  case exchangeDelete = 0x0028_0014
  case exchangeDeleteOK = 0x0028_0015
  case queueDeclare = 0x0032_000A
  case queueDeclareOK = 0x0032_000B
  case queueBind = 0x0032_0014
  case queueBindOK = 0x0032_0015
  case queuePurge = 0x0032_001E
  case queuePurgeOK = 0x0032_001F
  case queueDelete = 0x0032_0028
  case queueDeleteOK = 0x0032_0029
  case queueUnbind = 0x0032_0032
  case queueUnbindOK = 0x0032_0033
  case basicQoS = 0x003C_000A
  case basicQoSOK = 0x003C_000B
  case basicConsume = 0x003C_0014
  case basicConsumeOK = 0x003C_0015
  case basicCancel = 0x003C_001E
  case basicCancelOK = 0x003C_001F
  case basicPublish = 0x003C_0028
  case basicReturn = 0x003C_0032
  case basicDeliver = 0x003C_003C
  case basicAck = 0x003C_0050
  case basicReject = 0x003C_005A
  case basicNack = 0x003C_0078
  case confirmSelect = 0x0055_000A
  case confirmSelectOK = 0x0055_000B
}
