package import PushCore
package import PushIO
package import PushSettings

/// Every exchange, queue and binding that Herald uses, as one table. It is declared at each start, which changes nothing if all exist as
/// declared.
package struct Topology: Equatable, Sendable {
  /// `push.results.log`: the stream that keeps every outcome for a while.
  package struct ResultsLog: Equatable, Sendable {
    /// RabbitMQ's notation: `7D`, `12h`.
    package var maximumAge: String
    package var maximumBytes: Int64

    package init(maximumAge: String = "7D", maximumBytes: Int64 = 10 << 30) {
      self.maximumAge = maximumAge
      self.maximumBytes = maximumBytes
    }
  }

  package let prefix: String
  /// Ascending; one queue for each class and delay.
  package let retryDelaysSeconds: [Int]
  /// nil declares no log; then the broker drops outcomes that no queue takes.
  package let resultsLog: ResultsLog?

  /// A message that was delivered more often than this becomes a dead letter.
  package static let deliveryLimit: Int64 = 20

  package init(
    prefix: String = "push", retryDelaysSeconds: [Int] = [1, 5, 30, 120, 600], resultsLog: ResultsLog? = ResultsLog()
  ) {
    precondition(!prefix.isEmpty && prefix.utf8.count <= 100, "the prefix of names has 1 to 100 bytes")
    precondition(
      !retryDelaysSeconds.isEmpty && retryDelaysSeconds.allSatisfy { $0 > 0 && $0 <= 86_400 },
      "retry delays lie between a second and a day")
    self.prefix = prefix
    self.retryDelaysSeconds = retryDelaysSeconds.sorted()
    self.resultsLog = resultsLog
  }

  // MARK: names

  package var jobsExchange: String { "\(prefix).jobs" }
  package var retryExchange: String { "\(prefix).retry" }
  package var deadExchange: String { "\(prefix).dead" }
  package var resultsExchange: String { "\(prefix).results" }
  /// Herald's own dead letters, published by the default exchange.
  package var deadQueue: String { "\(prefix).dead" }
  /// What RabbitMQ itself gives up, by `deadExchange`: each message there gets its outcome before it is among the dead letters.
  package var undeliveredQueue: String { "\(prefix).undelivered" }
  /// What is taken from there too late: what no queue took keeps the time that its producer gave it.
  package var lateQueue: String { "\(prefix).undelivered.late" }
  package var resultsLogQueue: String { "\(prefix).results.log" }
  package var registrationsQueue: String { "\(prefix).registrations" }

  /// Where registrations wait that exceed their app's share, ascending.
  package static let registrationDelaysSeconds = [1, 5, 30]

  package func registrationsRetryQueue(seconds: Int) -> String {
    "\(prefix).retry.\(Topology.registrationsRetryRoutingKey(seconds: seconds))"
  }

  package static func registrationsRetryRoutingKey(seconds: Int) -> String { "registrations.\(seconds)" }

  /// Where registrations may wait.
  package var registrationQueues: [String] {
    [registrationsQueue] + Topology.registrationDelaysSeconds.map { registrationsRetryQueue(seconds: $0) }
  }

  /// Requests for channel management. Producers publish to it through the default exchange.
  package var channelsQueue: String { "\(prefix).channels" }

  /// Delays of a channel request's retries, ascending; short, because somebody waits for the answer.
  package static let channelDelaysSeconds = [1, 5, 30]

  package func channelsRetryQueue(seconds: Int) -> String {
    "\(prefix).retry.\(Topology.channelsRetryRoutingKey(seconds: seconds))"
  }

  package static func channelsRetryRoutingKey(seconds: Int) -> String { "channels.\(seconds)" }

  /// Jobs for audiences, and how the devices of their pages ended: ours alone, published by the default exchange.
  package func expansionsQueue(_ jobClass: JobClass) -> String { "\(prefix).\(Topology.expansions(jobClass))" }

  /// The transactional ones have the name that was once that of all.
  private static func expansions(_ jobClass: JobClass) -> String {
    switch jobClass {
    case .transactional: "expansions"
    case .bulk: "expansions.bulk"
    }
  }

  /// Where the next step of an audience's job waits, ascending.
  package static let expansionDelaysSeconds = [1, 5, 30]

  package func expansionsRetryQueue(_ jobClass: JobClass, seconds: Int) -> String {
    "\(prefix).retry.\(Topology.expansionsRetryRoutingKey(jobClass, seconds: seconds))"
  }

  package static func expansionsRetryRoutingKey(_ jobClass: JobClass, seconds: Int) -> String {
    "\(expansions(jobClass)).\(seconds)"
  }

  /// Where audiences of a class may wait.
  package func expansionQueues(_ jobClass: JobClass) -> [String] {
    [expansionsQueue(jobClass)]
      + Topology.expansionDelaysSeconds.map { expansionsRetryQueue(jobClass, seconds: $0) }
  }

  /// Channel requests that workers did not finish: single active consumer, as of isolated jobs.
  package var isolatedChannelsQueue: String { "\(prefix).channels.isolated" }

  /// Queues in which channel requests wait.
  package var channelQueues: [String] {
    [channelsQueue, isolatedChannelsQueue] + Topology.channelDelaysSeconds.map { channelsRetryQueue(seconds: $0) }
  }

  /// Jobs that workers did not finish: single active consumer, so one of them is processed at a time.
  package var isolatedQueue: String { "\(prefix).jobs.isolated" }
  package static let isolatedRoutingKey = "isolated"

  package func jobsQueue(_ jobClass: JobClass) -> String { "\(prefix).jobs.\(jobClass.name)" }

  /// Of a producer's publish to the exchange of jobs; nil: there is no such class. A producer that sets none gets the urgent one.
  package static func jobClass(ofRoutingKey key: String) -> JobClass? {
    key.isEmpty || key == isolatedRoutingKey ? .transactional : JobClass.allCases.first { $0.name == key }
  }

  package func retryQueue(_ jobClass: JobClass, seconds: Int) -> String {
    "\(prefix).retry.\(Topology.retryRoutingKey(jobClass, seconds: seconds))"
  }

  package static func retryRoutingKey(_ jobClass: JobClass, seconds: Int) -> String { "\(jobClass.name).\(seconds)" }

  /// The queue whose messages wait in a retry queue, also in one of a delay that is no longer configured; other names stay.
  package func queue(ofRetry name: String) -> String {
    let start = "\(prefix).retry."
    guard name.hasPrefix(start), let dot = name.lastIndex(of: ".") else { return name }
    let key = name[..<dot].dropFirst(start.count)
    return JobClass.allCases.first { $0.name == key }.map { jobsQueue($0) } ?? "\(prefix).\(key)"
  }

  /// Queues with jobs: when they are empty, nothing is left to do.
  package var workQueues: [String] {
    [isolatedQueue]
      + JobClass.allCases.flatMap { jobClass in
        [jobsQueue(jobClass)] + retryDelaysSeconds.map { retryQueue(jobClass, seconds: $0) }
      }
  }

  // MARK: the table

  /// The declarations in an order in which each finds what it names. The dead letters are bound last: a job that comes during the first
  /// declaration returns to its producer, instead of going there. Earlier versions bound their own queue to that exchange.
  package var declarations: [AMQPOperation] {
    exchanges + queues + bindings + [
      .bind(queue: undeliveredQueue, exchange: deadExchange, routingKey: ""),
      .unbind(queue: deadQueue, exchange: deadExchange, routingKey: ""),
    ]
  }

  /// The declarations of these queues, in the table's order.
  package func declarations(of names: [String]) -> [AMQPOperation] {
    queues.filter { declaration in
      guard case .declareQueue(let name, _) = declaration else { return false }
      return names.contains(name)
    }
  }

  private var exchanges: [AMQPOperation] {
    [
      .declareExchange(name: deadExchange, kind: .fanout, arguments: []),
      .declareExchange(
        name: jobsExchange, kind: .direct, arguments: [AMQPArgument("alternate-exchange", .text(deadExchange))]),
      .declareExchange(name: retryExchange, kind: .direct, arguments: []),
      .declareExchange(name: resultsExchange, kind: .topic, arguments: []),
    ]
  }

  private var jobsArguments: [AMQPArgument] {
    [
      .quorum,
      AMQPArgument("x-delivery-limit", .number(Topology.deliveryLimit)),
      AMQPArgument("x-dead-letter-exchange", .text(deadExchange)),
      AMQPArgument("x-dead-letter-strategy", .text("at-least-once")),
      AMQPArgument("x-overflow", .text("reject-publish")),
    ]
  }

  private func undeliveredArguments(next queue: String) -> [AMQPArgument] {
    [
      .quorum,
      AMQPArgument("x-delivery-limit", .number(Topology.deliveryLimit)),
      AMQPArgument("x-dead-letter-exchange", .text("")),
      AMQPArgument("x-dead-letter-routing-key", .text(queue)),
      AMQPArgument("x-dead-letter-strategy", .text("at-least-once")),
      AMQPArgument("x-overflow", .text("reject-publish")),
    ]
  }

  private var isolatedArguments: [AMQPArgument] {
    jobsArguments + [AMQPArgument("x-single-active-consumer", .flag(true))]
  }

  /// Arguments of a queue whose messages go to `exchange` after their time.
  private func retryArguments(seconds: Int, exchange: String, routingKey: String) -> [AMQPArgument] {
    [
      .quorum,
      AMQPArgument("x-message-ttl", .number(Int64(seconds) * 1000)),
      AMQPArgument("x-dead-letter-exchange", .text(exchange)),
      AMQPArgument("x-dead-letter-routing-key", .text(routingKey)),
      AMQPArgument("x-dead-letter-strategy", .text("at-least-once")),
      AMQPArgument("x-overflow", .text("reject-publish")),
    ]
  }

  private var queues: [AMQPOperation] {
    var queues: [AMQPOperation] = [
      .declareQueue(name: deadQueue, arguments: [.quorum]),
      .declareQueue(name: undeliveredQueue, arguments: undeliveredArguments(next: lateQueue)),
      .declareQueue(name: lateQueue, arguments: undeliveredArguments(next: deadQueue)),
      .declareQueue(name: registrationsQueue, arguments: [.quorum]),
      .declareQueue(name: channelsQueue, arguments: jobsArguments),
      .declareQueue(name: isolatedQueue, arguments: isolatedArguments),
      .declareQueue(name: isolatedChannelsQueue, arguments: isolatedArguments),
    ]
    for jobClass in JobClass.allCases {
      queues.append(.declareQueue(name: jobsQueue(jobClass), arguments: jobsArguments))
      for seconds in retryDelaysSeconds {
        queues.append(
          .declareQueue(
            name: retryQueue(jobClass, seconds: seconds),
            arguments: retryArguments(seconds: seconds, exchange: jobsExchange, routingKey: jobClass.name)))
      }
      queues.append(.declareQueue(name: expansionsQueue(jobClass), arguments: jobsArguments))
      for seconds in Topology.expansionDelaysSeconds {
        queues.append(
          .declareQueue(
            name: expansionsRetryQueue(jobClass, seconds: seconds),
            arguments: retryArguments(seconds: seconds, exchange: "", routingKey: expansionsQueue(jobClass))))
      }
    }
    for seconds in Topology.channelDelaysSeconds {
      queues.append(
        .declareQueue(
          name: channelsRetryQueue(seconds: seconds),
          arguments: retryArguments(seconds: seconds, exchange: "", routingKey: channelsQueue)))
    }
    for seconds in Topology.registrationDelaysSeconds {
      queues.append(
        .declareQueue(
          name: registrationsRetryQueue(seconds: seconds),
          arguments: retryArguments(seconds: seconds, exchange: "", routingKey: registrationsQueue)))
    }
    if let resultsLog {
      queues.append(
        .declareQueue(
          name: resultsLogQueue,
          arguments: [
            AMQPArgument("x-queue-type", .text("stream")),
            AMQPArgument("x-max-age", .text(resultsLog.maximumAge)),
            AMQPArgument("x-max-length-bytes", .number(resultsLog.maximumBytes)),
          ]))
    }
    return queues
  }

  private var bindings: [AMQPOperation] {
    var bindings: [AMQPOperation] = [
      .bind(queue: jobsQueue(.transactional), exchange: jobsExchange, routingKey: ""),
      .bind(queue: isolatedQueue, exchange: jobsExchange, routingKey: Topology.isolatedRoutingKey),
    ]
    for jobClass in JobClass.allCases {
      bindings.append(.bind(queue: jobsQueue(jobClass), exchange: jobsExchange, routingKey: jobClass.name))
      for seconds in retryDelaysSeconds {
        bindings.append(
          .bind(
            queue: retryQueue(jobClass, seconds: seconds), exchange: retryExchange,
            routingKey: Topology.retryRoutingKey(jobClass, seconds: seconds)))
      }
      for seconds in Topology.expansionDelaysSeconds {
        bindings.append(
          .bind(
            queue: expansionsRetryQueue(jobClass, seconds: seconds), exchange: retryExchange,
            routingKey: Topology.expansionsRetryRoutingKey(jobClass, seconds: seconds)))
      }
    }
    for seconds in Topology.channelDelaysSeconds {
      bindings.append(
        .bind(
          queue: channelsRetryQueue(seconds: seconds), exchange: retryExchange,
          routingKey: Topology.channelsRetryRoutingKey(seconds: seconds)))
    }
    for seconds in Topology.registrationDelaysSeconds {
      bindings.append(
        .bind(
          queue: registrationsRetryQueue(seconds: seconds), exchange: retryExchange,
          routingKey: Topology.registrationsRetryRoutingKey(seconds: seconds)))
    }
    if resultsLog != nil {
      bindings.append(.bind(queue: resultsLogQueue, exchange: resultsExchange, routingKey: "#"))
    }
    return bindings
  }
}

extension AMQPArgument {
  fileprivate static let quorum = AMQPArgument("x-queue-type", .text("quorum"))
}

extension JobClass {
  /// The word in queue names, routing keys and headers.
  fileprivate var name: String {
    switch self {
    case .transactional: "transactional"
    case .bulk: "bulk"
    }
  }
}

extension Topology {
  /// The topology of a configuration.
  package init(_ configuration: Configuration) {
    let log = ResultsLog(
      maximumAge: configuration.results.logMaximumAge, maximumBytes: Int64(configuration.results.logMaximumBytes))
    self.init(
      prefix: configuration.rabbitmq.prefix, retryDelaysSeconds: configuration.retry.delaysSeconds,
      resultsLog: configuration.results.isLogged ? log : nil)
  }
}
