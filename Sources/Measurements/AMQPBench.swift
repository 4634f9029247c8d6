import ArgumentParser
import Foundation
import PushCore
import PushIO
import PushLane

struct AMQPBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "amqp", abstract: "Consumes jobs, publishes an outcome for each, awaits its confirm and acknowledges.")

  @OptionGroup var options: BenchOptions

  @Option(help: "Where RabbitMQ is. Default: HERALD_RABBITMQ_URL, else 127.0.0.1:5672.")
  var url: String?

  func run() throws {
    var figures = Figures()
    for _ in 0..<options.runs {
      let broker = try BenchBroker(url: url)
      defer { broker.remove() }
      try broker.fill(options.jobs)
      let ours = try measure(broker)
      figures.add("consume, publish, confirm, ack", ours.cpu, "CPU µs/message")
      figures.add("rate", ours.rate, "messages/s")
    }
    try figures.show("amqp: \(options.jobs) messages through quorum queues", json: options.json)
  }

  private func measure(_ bench: BenchBroker) throws -> (cpu: Double, rate: Double) {
    let loop = try EventLoop()
    let broker = RabbitMQBroker(loop: loop, settings: bench.settings(prefetch: 2000))
    var job = PushJob()
    var metadata = MessageMetadata()
    var tags = ConfirmWindow(capacity: 16_384)
    var marks = AckWatermark(capacity: 4096)
    let outcome = SampleJobs.body(1)
    let key = Array("accepted.production.com.example.app".utf8)
    var settled = 0
    var used: Int64 = 0
    var start = ContinuousClock.now
    while settled < options.jobs {
      // As a busy lane does.
      loop.poll(maximumWaitMilliseconds: 5, spacingMicroseconds: settled > 0 ? 2000 : 0)
      while let event = broker.nextEvent(takesDeliveries: true) {
        switch event {
        case .delivery(let delivery):
          if used == 0 {
            used = ProcessUsage.current.cpuMicroseconds
            start = ContinuousClock.now
          }
          broker.copyDelivery(into: &job, metadata: &metadata)
          _ = marks.delivered(delivery.tag.value)
          let id = UUIDValue(high: 2, low: delivery.tag.value)
          let sequence = broker.publishOutcome(outcome, routingKey: key, apnsID: id, metadata: metadata)
          tags.published(
            sequence, ConfirmWindow.Entry(ticket: Ticket(packed: delivery.tag.value), destination: .results))
        case .confirmed(let numbers):
          for number in tags.published(numbers) {
            guard let entry = tags.take(number) else { continue }
            marks.done(entry.ticket.packed, now: loop.now.monotonic)
            settled += 1
          }
        case .refused:
          throw SimulatorProcess.Failure(description: "the broker refused an outcome")
        case .consuming, .consumingStopped, .publishing, .publishingStopped, .blocked, .unblocked, .exhausted:
          break
        }
      }
      if let tag = marks.takeDue(now: loop.now.monotonic, batch: 200, delayMilliseconds: 5) {
        broker.acknowledge(upTo: DeliveryTag(epoch: 1, jobClass: .transactional, value: tag))
      }
      loop.flush()
    }
    let cpu = Double(ProcessUsage.current.cpuMicroseconds - used) / Double(options.jobs)
    let rate = Double(options.jobs) / microseconds(since: start) * 1e6
    broker.close()
    loop.flush()
    return (cpu, rate)
  }
}

/// Private exchanges and queues of a measurement, filled with jobs and removed after it.
struct BenchBroker {
  let url: String
  let topology: Topology
  private let address: AMQPAddress

  init(url: String?) throws {
    self.url = url ?? ProcessInfo.processInfo.environment["HERALD_RABBITMQ_URL"] ?? "amqp://guest:guest@127.0.0.1:5672/"
    address = try AMQPAddress(self.url)
    topology = Topology(prefix: "bench-\(UUID().uuidString.prefix(8))", resultsLog: nil)
  }

  func settings(prefetch: Int) -> RabbitMQSettings {
    var settings = RabbitMQSettings(
      addresses: [address], tls: nil, topology: topology, laneName: "bench/0", prefetch: prefetch, randomSeed: 1)
    // As with a results log, which is the default.
    settings.outcomesAreMandatory = true
    return settings
  }

  /// Outcomes go to a quorum queue, as for analytics.
  var outcomeQueue: String { "\(topology.prefix).outcomes" }

  /// `invalidPercent`: this percentage of the jobs is invalid, spread evenly.
  func fill(_ count: Int, invalidPercent: Int = 0) throws {
    let admin = try AMQPAdmin(addresses: [address], tls: nil, name: "herald-bench")
    defer { admin.close() }
    try admin.perform(all: topology.declarations)
    try admin.perform(
      .declareQueue(name: outcomeQueue, arguments: [AMQPArgument("x-queue-type", .text("quorum"))]))
    try admin.perform(.bind(queue: outcomeQueue, exchange: topology.resultsExchange, routingKey: "#"))
    let exchange = AMQPExchange(topology.jobsExchange, isMandatory: true)
    let properties = AMQPProperties()
    for number in 0..<count {
      properties.reset()
      let isInvalid = number * invalidPercent / 100 != (number + 1) * invalidPercent / 100
      try admin.publish(
        to: exchange, routingKey: JobClass.transactional.name, properties: properties,
        body: isInvalid ? SampleJobs.invalidBody(number) : SampleJobs.body(number))
    }
    try admin.waitForConfirms()
  }

  /// Publishes these jobs to the queues that `fill` declared.
  func publish(_ bodies: [[UInt8]]) throws {
    let admin = try AMQPAdmin(addresses: [address], tls: nil, name: "herald-bench")
    defer { admin.close() }
    let exchange = AMQPExchange(topology.jobsExchange, isMandatory: true)
    let properties = AMQPProperties()
    for body in bodies {
      properties.reset()
      try admin.publish(to: exchange, routingKey: JobClass.transactional.name, properties: properties, body: body)
    }
    try admin.waitForConfirms()
  }

  func outcomeCount() throws -> Int {
    let admin = try AMQPAdmin(addresses: [address], tls: nil, name: "herald-bench")
    defer { admin.close() }
    return try admin.messageCount(queue: outcomeQueue) ?? 0
  }

  /// The number of unacknowledged jobs after the worker ended. One more job, confirmed, comes after all that were requeued.
  func jobsLeft() throws -> Int {
    let admin = try AMQPAdmin(addresses: [address], tls: nil, name: "herald-bench")
    defer { admin.close() }
    try admin.publish(
      to: AMQPExchange(topology.jobsExchange, isMandatory: true), routingKey: JobClass.transactional.name,
      properties: AMQPProperties(), body: SampleJobs.body(0))
    try admin.waitForConfirms()
    return (try admin.messageCount(queue: topology.jobsQueue(.transactional)) ?? 0) - 1
  }

  func remove() {
    guard let admin = try? AMQPAdmin(addresses: [address], tls: nil, name: "herald-bench") else { return }
    defer { admin.close() }
    let audiences = JobClass.allCases.flatMap { topology.expansionQueues($0) }
    for queue in topology.workQueues + topology.channelQueues + topology.registrationQueues + audiences + [
      topology.deadQueue, topology.undeliveredQueue, topology.lateQueue, outcomeQueue,
    ] {
      _ = try? admin.perform(.deleteQueue(name: queue))
    }
    for exchange in [topology.jobsExchange, topology.retryExchange, topology.deadExchange, topology.resultsExchange] {
      _ = try? admin.perform(.deleteExchange(name: exchange))
    }
  }
}
