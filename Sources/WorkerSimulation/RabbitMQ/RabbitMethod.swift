/// Class and method numbers of AMQP 0-9-1, class in the upper half. Source: the protocol's XML with RabbitMQ's extensions.
enum RabbitMethod {
  static let connectionStart: UInt32 = 0x000A_000A
  static let connectionStartOK: UInt32 = 0x000A_000B
  static let connectionTune: UInt32 = 0x000A_001E
  static let connectionTuneOK: UInt32 = 0x000A_001F
  static let connectionOpen: UInt32 = 0x000A_0028
  static let connectionOpenOK: UInt32 = 0x000A_0029
  static let connectionClose: UInt32 = 0x000A_0032
  static let connectionCloseOK: UInt32 = 0x000A_0033
  static let connectionBlocked: UInt32 = 0x000A_003C
  static let connectionUnblocked: UInt32 = 0x000A_003D
  static let channelOpen: UInt32 = 0x0014_000A
  static let channelOpenOK: UInt32 = 0x0014_000B
  static let channelFlow: UInt32 = 0x0014_0014
  static let channelFlowOK: UInt32 = 0x0014_0015
  static let channelClose: UInt32 = 0x0014_0028
  static let channelCloseOK: UInt32 = 0x0014_0029
  static let exchangeDeclare: UInt32 = 0x0028_000A
  static let exchangeDeclareOK: UInt32 = 0x0028_000B
  static let exchangeDelete: UInt32 = 0x0028_0014
  static let exchangeDeleteOK: UInt32 = 0x0028_0015
  static let queueDeclare: UInt32 = 0x0032_000A
  static let queueDeclareOK: UInt32 = 0x0032_000B
  static let queueBind: UInt32 = 0x0032_0014
  static let queueBindOK: UInt32 = 0x0032_0015
  static let queuePurge: UInt32 = 0x0032_001E
  static let queuePurgeOK: UInt32 = 0x0032_001F
  static let queueDelete: UInt32 = 0x0032_0028
  static let queueDeleteOK: UInt32 = 0x0032_0029
  static let queueUnbind: UInt32 = 0x0032_0032
  static let queueUnbindOK: UInt32 = 0x0032_0033
  static let basicQoS: UInt32 = 0x003C_000A
  static let basicQoSOK: UInt32 = 0x003C_000B
  static let basicConsume: UInt32 = 0x003C_0014
  static let basicConsumeOK: UInt32 = 0x003C_0015
  static let basicCancel: UInt32 = 0x003C_001E
  static let basicCancelOK: UInt32 = 0x003C_001F
  static let basicPublish: UInt32 = 0x003C_0028
  static let basicReturn: UInt32 = 0x003C_0032
  static let basicDeliver: UInt32 = 0x003C_003C
  static let basicAck: UInt32 = 0x003C_0050
  static let basicReject: UInt32 = 0x003C_005A
  static let basicNack: UInt32 = 0x003C_0078
  static let confirmSelect: UInt32 = 0x0055_000A
  static let confirmSelectOK: UInt32 = 0x0055_000B

  static let basicClass: UInt16 = 60

  /// Client methods that a real server supports and this one does not: it answers "not implemented".
  static let missing: [UInt32] = [
    0x000A_0015, 0x000A_0046, 0x0028_001E, 0x0028_0028, 0x003C_0046, 0x003C_0064, 0x003C_006E, 0x005A_000A,
    0x005A_0014, 0x005A_001E,
  ]

  /// Whether the protocol has this method, for clients or servers.
  static func isKnown(_ method: UInt32) -> Bool {
    let number = method & 0xFFFF
    switch method >> 16 {
    case 10: return [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61, 70, 71].contains(number)
    case 20: return [10, 11, 20, 21, 40, 41].contains(number)
    case 30: return [10, 11].contains(number)
    case 40: return [10, 11, 20, 21, 30, 31, 40, 51].contains(number)
    case 50: return [10, 11, 20, 21, 30, 31, 40, 41, 50, 51].contains(number)
    case 60:
      return [10, 11, 20, 21, 30, 31, 40, 50, 60, 70, 71, 72, 80, 90, 100, 110, 111, 120].contains(number)
    case 85: return [10, 11].contains(number)
    case 90: return [10, 11, 20, 21, 30, 31].contains(number)
    default: return false
    }
  }
}

/// Frame types and the end mark.
enum RabbitFrame {
  static let method: UInt8 = 1
  static let header: UInt8 = 2
  static let body: UInt8 = 3
  static let heartbeat: UInt8 = 8
  static let endMark: UInt8 = 0xCE
  /// Type, channel, size and end mark.
  static let overhead = 8
  /// The frame size that is allowed before tuning.
  static let smallestMaximum = 4096
}
