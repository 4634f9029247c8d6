package import PushCore
package import PushIO
package import PushLane

/// What becomes of a message that RabbitMQ gave up: whoever tells its end gets it again, and where nobody can, it is a dead letter.
package enum UndeliveredMessage: Equatable, Sendable {
  /// - Parameters:
  ///   - jobClass: of a job.
  ///   - deliveries: not finished by any worker, of this message and of those that it is a copy of.
  ///   - routingKey: that it was published with, if that is no class.
  ///   - undelivered: nobody carries it out any more.
  case goes(queue: String, jobClass: JobClass? = nil, deliveries: UInt32, routingKey: String = "", Undelivered? = nil)
  /// As it is: its end was told before, or it would end workers for ever.
  case deadLetter

  /// After so many deliveries that no worker finished, whatever a message is, telling its end is what ends workers.
  private static let deliveriesMaximum = UInt32(Topology.deliveryLimit) * 3

  /// - Parameters:
  ///   - deaths: how it left queues, the latest first.
  ///   - exchange: where it was published to; `routingKey`: with that.
  package init(
    _ metadata: borrowing MessageMetadata, deaths: [AMQPDeath], exchange: String, routingKey: String,
    _ topology: borrowing Topology
  ) {
    let carried = metadata.carriedDeliveries
    var (deaths, exchange, routingKey) = (deaths[...], exchange, routingKey)
    if let death = deaths.first, death.queue == topology.undeliveredQueue {
      // It was dealt with there, or dealing with it ended workers.
      guard death.reason == "expired" else {
        self = .deadLetter
        return
      }
      (exchange, routingKey) = (death.exchange, death.routingKey)
      deaths.removeFirst()
    }
    // No queue took it. One of ours may have been missing.
    if exchange == topology.jobsExchange {
      let known = Topology.jobClass(ofRoutingKey: routingKey)
      let jobClass = metadata.jobClass ?? known ?? .transactional
      self = .goes(
        queue: topology.jobsQueue(jobClass), jobClass: jobClass, deliveries: carried,
        routingKey: known == nil ? routingKey : "", known == nil ? .unroutable : nil)
      return
    }
    // Earlier versions published their dead letters to that exchange. Who rejects a message has told its end.
    guard let death = deaths.first, death.reason != "rejected" else {
      self = .deadLetter
      return
    }
    let isTooOften = death.reason == "delivery_limit"
    let deliveries = isTooOften ? carried &+ UInt32(Topology.deliveryLimit) : carried
    if deliveries > UndeliveredMessage.deliveriesMaximum {
      self = .deadLetter
      return
    }
    let queue = topology.queue(ofRetry: death.queue)
    let ofJobs = JobClass.allCases.first { queue == topology.jobsQueue($0) }
    if ofJobs != nil || queue == topology.isolatedQueue {
      let jobClass = metadata.jobClass ?? ofJobs ?? .transactional
      let isExpired = death.reason == "expired"
      let undelivered = isExpired ? .expired : metadata.undelivered
      // The second time its queue is too long for the time that a policy gives it: in this one it comes soon.
      let isIsolated = isTooOften || isExpired && metadata.undelivered != nil
      self = .goes(
        queue: isIsolated ? topology.isolatedQueue : topology.jobsQueue(jobClass), jobClass: jobClass,
        deliveries: deliveries, undelivered)
    } else if topology.channelQueues.contains(queue) {
      self = .goes(
        queue: isTooOften ? topology.isolatedChannelsQueue : queue, deliveries: deliveries,
        death.reason == "expired" ? .expired : nil)
    } else if queue == topology.registrationsQueue {
      self = .goes(queue: queue, deliveries: deliveries)
    } else if let jobClass = JobClass.allCases.first(where: { queue == topology.expansionsQueue($0) }) {
      self = .goes(queue: queue, jobClass: metadata.jobClass ?? jobClass, deliveries: deliveries)
    } else {
      self = .deadLetter
    }
  }
}
