import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// A broker adapter, the loop that turns it, and everything that it reported so far.
final class RabbitMQBrokerHarness {
  let loop: EventLoop
  let broker: RabbitMQBroker
  let topology: Topology
  let address: AMQPAddress
  private(set) var events: [String] = []
  private(set) var deliveries: [(delivery: Delivery, body: [UInt8], metadata: MessageMetadata)] = []
  private(set) var confirmed: Set<UInt64> = []
  private(set) var refused: Set<UInt64> = []
  private(set) var notices: [RabbitMQNotice] = []
  /// false: the harness takes no deliveries.
  var takesDeliveries = true
  private var highestPublished: UInt64 = 0

  init(server: RabbitMQServer, prefix: String, resultsLog: Bool = true) throws {
    loop = try EventLoop()
    address = try AMQPAddress(server.url)
    topology = Topology(
      prefix: prefix, retryDelaysSeconds: [1, 5], resultsLog: resultsLog ? Topology.ResultsLog() : nil)
    var settings = RabbitMQSettings(
      addresses: [address], tls: nil, topology: topology, laneName: "test/0", prefetch: 100, randomSeed: 1)
    settings.emptyPollMilliseconds = 100
    settings.reconnectInitialMilliseconds = 100
    broker = RabbitMQBroker(loop: loop, settings: settings)
  }

  func admin() throws -> AMQPAdmin {
    try AMQPAdmin(patient: address)
  }

  /// Publishes jobs from outside.
  func enqueue(_ bodies: [[UInt8]], routingKey: String, _ properties: AMQPProperties = AMQPProperties()) throws {
    let admin = try admin()
    let exchange = AMQPExchange(topology.jobsExchange, isMandatory: true)
    for body in bodies { try admin.publish(to: exchange, routingKey: routingKey, properties: properties, body: body) }
    try admin.waitForConfirms()
    #expect(admin.results.confirmed == bodies.count)
    admin.close()
  }

  func publish(_ send: (RabbitMQBroker) -> UInt64) -> UInt64 {
    let sequence = send(broker)
    #expect(sequence > highestPublished)
    highestPublished = sequence
    return sequence
  }

  /// Turns until the condition holds; false after the timeout.
  @discardableResult
  func run(timeoutMilliseconds: Int64 = 20_000, until condition: (RabbitMQBrokerHarness) -> Bool) -> Bool {
    // The loop's clock shows its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    let start = loop.now.monotonic
    while true {
      loop.poll(maximumWaitMilliseconds: 20)
      while let event = broker.nextEvent(takesDeliveries: takesDeliveries) { record(event) }
      notices += broker.takeNotices()
      loop.flush()
      if condition(self) { return true }
      if loop.now.monotonic.milliseconds(since: start) > timeoutMilliseconds { return false }
    }
  }

  /// Half a second of turns: enough for the broker to carry out every request.
  func settle() {
    run(timeoutMilliseconds: 500) { _ in false }
  }

  func count(of event: String) -> Int { events.count { $0 == event } }

  private func record(_ event: BrokerEvent) {
    switch event {
    case .delivery(let delivery):
      var job = PushJob()
      var metadata = MessageMetadata()
      broker.copyDelivery(into: &job, metadata: &metadata)
      deliveries.append((delivery, Array(job.bytes[..<job.bodyCount]), metadata))
    case .confirmed(let numbers):
      for number in numbers where !refused.contains(number) { confirmed.insert(number) }
    case .refused(let numbers):
      for number in numbers where !confirmed.contains(number) { refused.insert(number) }
    case .consuming(let epoch): events.append("consuming \(epoch)")
    case .consumingStopped: events.append("consumingStopped")
    case .publishing: events.append("publishing")
    case .publishingStopped: events.append("publishingStopped")
    case .blocked: events.append("blocked")
    case .unblocked: events.append("unblocked")
    case .exhausted: events.append("exhausted")
    }
  }
}
