import PushCore
import PushIO

/// The channels of the two connections, and what is asked of each before it is in use.
extension RabbitMQBroker {
  static let publishChannel: UInt16 = 1
  /// Declares again and counts messages, beside the publishes.
  static let controlChannel: UInt16 = 2
  /// Dead letters of jobs that are too large: their confirms are the adapter's own.
  static let oversizedChannel: UInt16 = 3
  /// Of the consumer's connection, behind those of the classes.
  static let isolatedChannel: UInt16 = 3

  static func publisherSetUp(_ topology: Topology) -> [(operation: AMQPOperation, channel: UInt16)] {
    [
      (.openChannel, publishChannel), (.selectConfirms, publishChannel), (.openChannel, oversizedChannel),
      (.selectConfirms, oversizedChannel), (.openChannel, controlChannel),
    ]
      + topology.declarations.map { ($0, controlChannel) }
  }

  static func consumerSetUp(
    _ settings: RabbitMQSettings
  ) -> [(operation: AMQPOperation, channel: UInt16)] {
    var steps: [(operation: AMQPOperation, channel: UInt16)] = []
    for jobClass in JobClass.allCases {
      let prefetch =
        switch jobClass {
        case .transactional: settings.prefetchTransactional
        case .bulk: settings.prefetchBulk
        }
      steps.append((.openChannel, channel(jobClass)))
      steps.append((.prefetch(prefetch), channel(jobClass)))
    }
    steps.append((.openChannel, isolatedChannel))
    steps.append((.prefetch(1), isolatedChannel))
    return steps
  }

  static func channel(_ jobClass: JobClass) -> UInt16 { UInt16(jobClass.rawValue) + 1 }

  static func channel(_ tag: DeliveryTag) -> UInt16 {
    tag.isIsolated ? isolatedChannel : channel(tag.jobClass)
  }
}
