import Foundation
import Logging
import PushCore
import PushIO
import PushLane
import PushStores

/// Registrations from RabbitMQ to Redis through a registration consumer, as in a worker.
struct RegistryQueueBench {
  let redis: String
  let prefix: String

  private var rabbitmq: String {
    ProcessInfo.processInfo.environment["HERALD_RABBITMQ_URL"] ?? "amqp://guest:guest@127.0.0.1:5672/"
  }

  /// Publishes them while a consumer takes them.
  func run(_ bodies: [[UInt8]]) throws {
    let topology = Topology(prefix: "bench-registry")
    let addresses = [try AMQPAddress(rabbitmq)]
    let admin = try AMQPAdmin(addresses: addresses, tls: nil, name: "herald-bench registry")
    defer { admin.close() }
    try admin.perform(all: topology.declarations)
    let settings = RegistrationConsumerSettings(
      rabbitmq: RabbitMQSettings(
        addresses: addresses, tls: nil, topology: topology, laneName: "bench/registrations", prefetch: 2, randomSeed: 1),
      redis: try RedisConfiguration(url: redis), redisTLS: nil, prefix: prefix)
    var logger = Logger(label: "bench")
    logger.logLevel = .warning
    let consumer = RegistrationConsumer(settings, logger: logger)
    consumer.start(WallClock())
    let exchange = AMQPExchange("", isMandatory: true)
    let properties = AMQPProperties()
    for body in bodies {
      properties.reset()
      try admin.publish(
        to: exchange, routingKey: topology.registrationsQueue, properties: properties, body: body)
    }
    try admin.waitForConfirms()
    while consumer.counters.results.values.reduce(0, +) < bodies.count { usleep(5_000) }
    consumer.drain()
    consumer.join()
  }
}
