import PushCore
import PushIO
package import PushLane
package import PushSettings

/// The consumer of what RabbitMQ gave up (`push.undelivered`). Each message goes to the queue whose consumer tells its end.
package typealias UndeliveredConsumer = QueueConsumer<UndeliveredConsumerLoop>

/// The settings of such a consumer.
package struct UndeliveredSettings: Sendable {
  /// Its random seed is ignored: the consumer draws its own.
  package var rabbitmq: RabbitMQSettings
  /// Maximum messages of each queue in progress: each may have 8 MiB.
  package var messagesMaximum: UInt16 = 8
  package var drainTimeoutMilliseconds: Int64 = 25_000

  /// - Parameter hostName: part of the connection's name in RabbitMQ.
  package init(_ configuration: Configuration, hostName: String) throws {
    let parts = try LaneParts(configuration, laneCount: 1)
    rabbitmq = parts.rabbitmq(name: "\(hostName)/undelivered", prefetch: 2, randomSeed: 0)
    rabbitmq.connection.keepsAddresses = true
    rabbitmq.connection.bodyBytesMaximum = Limits.deadLetterBytesMaximum
    drainTimeoutMilliseconds = configuration.drainTimeoutMilliseconds
  }
}

/// Messages that RabbitMQ gave up, in this process since the start. `taken` only grows; the others are gauges.
package struct UndeliveredCounters: ConsumerCounters {
  /// By why RabbitMQ gave them up: `expired`, `delivery_limit`, `maxlen`, `rejected`, `unroutable`, `other`.
  package var taken: [String: UInt64] = [:]
  /// Taken from the queue and not acknowledged.
  package var inFlight = 0
  /// Destinations that refuse what it publishes.
  package var refusing: [RefusedDestination] = []
  package var isConnected = false

  package init() {}
}
