import PushCore
import PushIO
import PushLane
import Testing

@testable import PushStores

struct UndeliveredMessageTests {
  private let topology = Topology()

  private func way(
    _ queue: String?, _ reason: String = "delivery_limit", exchange: String = "push.dead", key: String = "",
    _ change: (inout MessageMetadata) -> Void = { _ in }
  ) -> UndeliveredMessage {
    var metadata = MessageMetadata()
    change(&metadata)
    return UndeliveredMessage(
      metadata, deaths: queue.map { [AMQPDeath(reason: reason, queue: $0)] } ?? [], exchange: exchange,
      routingKey: key, topology)
  }

  @Test func aJobThatReachedTheLimit_isIsolatedWithItsCount() {
    #expect(
      way("push.jobs.bulk") { $0.carriedDeliveries = 3 }
        == .goes(queue: "push.jobs.isolated", jobClass: .bulk, deliveries: 23))
    #expect(
      way("push.jobs.isolated") { $0.jobClass = .bulk }
        == .goes(queue: "push.jobs.isolated", jobClass: .bulk, deliveries: 20))
  }

  /// Telling its end is what ends workers.
  @Test func whatReachesTheLimitAgainAndAgain_isADeadLetter() {
    for queue in ["push.jobs.isolated", "push.expansions", "push.channels.isolated"] {
      #expect(way(queue) { $0.carriedDeliveries = 41 } == .deadLetter, "\(queue)")
      #expect(way(queue) { $0.carriedDeliveries = 40 } != .deadLetter, "\(queue)")
    }
    #expect(way("push.jobs.bulk", "expired") { $0.carriedDeliveries = 60 } != .deadLetter)
  }

  @Test func aJobWhoseTimeIsOver_saysSo() {
    #expect(
      way("push.jobs.bulk", "expired") == .goes(queue: "push.jobs.bulk", jobClass: .bulk, deliveries: 0, .expired))
    // Its queue is longer than a policy's time.
    #expect(
      way("push.jobs.bulk", "expired") { $0.undelivered = .expired }
        == .goes(queue: "push.jobs.isolated", jobClass: .bulk, deliveries: 0, .expired))
    #expect(
      way("push.jobs.transactional", "maxlen")
        == .goes(queue: "push.jobs.transactional", jobClass: .transactional, deliveries: 0))
  }

  /// A binding was missing: what no queue took is none of its faults.
  @Test func whatNoQueueTook_goesToItsClass_orHasNone() {
    #expect(
      way(nil, exchange: "push.jobs", key: "bulk") == .goes(queue: "push.jobs.bulk", jobClass: .bulk, deliveries: 0))
    #expect(
      way(nil, exchange: "push.jobs")
        == .goes(queue: "push.jobs.transactional", jobClass: .transactional, deliveries: 0))
    #expect(
      way(nil, exchange: "push.jobs", key: "Bulk")
        == .goes(
          queue: "push.jobs.transactional", jobClass: .transactional, deliveries: 0, routingKey: "Bulk", .unroutable))
    #expect(
      way("push.retry.bulk.120", "expired", exchange: "push.jobs", key: "bulk")
        == .goes(queue: "push.jobs.bulk", jobClass: .bulk, deliveries: 0))
  }

  /// Headers are copied, or forged.
  @Test func whatNoQueueTook_isNoDeadLetter() {
    #expect(
      way("push.jobs.bulk", "rejected", exchange: "push.jobs", key: "Bulk")
        == .goes(
          queue: "push.jobs.transactional", jobClass: .transactional, deliveries: 0, routingKey: "Bulk", .unroutable))
  }

  /// What no queue took keeps its time, and it was over before a worker came.
  @Test func whatWasTakenTooLate_isWhatItWas() {
    func late(_ reason: String, _ exchange: String, _ key: String, _ deaths: [AMQPDeath] = []) -> UndeliveredMessage {
      let last = AMQPDeath(reason: reason, queue: "push.undelivered", exchange: exchange, routingKey: key)
      return UndeliveredMessage(
        MessageMetadata(), deaths: [last] + deaths, exchange: "", routingKey: "push.undelivered.late", topology)
    }
    #expect(
      late("expired", "push.jobs", "Bulk")
        == .goes(
          queue: "push.jobs.transactional", jobClass: .transactional, deliveries: 0, routingKey: "Bulk", .unroutable))
    #expect(
      late("expired", "push.dead", "bulk", [AMQPDeath(reason: "expired", queue: "push.jobs.bulk")])
        == .goes(queue: "push.jobs.bulk", jobClass: .bulk, deliveries: 0, .expired))
    #expect(late("rejected", "push.jobs", "Bulk") == .deadLetter)
    #expect(late("delivery_limit", "push.jobs", "bulk") == .deadLetter)
  }

  @Test func othersGoWhereTheyWere() {
    #expect(way("push.channels") == .goes(queue: "push.channels.isolated", deliveries: 20))
    #expect(way("push.channels", "expired") == .goes(queue: "push.channels", deliveries: 0, .expired))
    #expect(way("push.expansions.bulk") == .goes(queue: "push.expansions.bulk", jobClass: .bulk, deliveries: 20))
    #expect(way("push.registrations", "expired") == .goes(queue: "push.registrations", deliveries: 0))
  }

  @Test func whatWasTold_isADeadLetter() {
    #expect(way("push.jobs.bulk", "rejected") == .deadLetter)
    #expect(way(nil) == .deadLetter, "an earlier version's")
    #expect(way("others") == .deadLetter)
  }

  /// As its own dead letter would say: RabbitMQ's stay where they are, if their queue was full once.
  @Test func deadLetterOfWhatRabbitMQGaveUp_saysWhyAndWhence() {
    func letter(_ deaths: [(reason: String, queue: String)], _ headers: [AMQPArgument] = []) -> UndeliveredLetter {
      let ours = AMQPDeath(reason: "rejected", queue: "push.undelivered")
      return UndeliveredLetter([ours] + deaths.map { AMQPDeath(reason: $0.reason, queue: $0.queue) }, headers, topology)
    }
    let rejected = letter([("rejected", "push.jobs.bulk"), ("expired", "push.retry.bulk.5")])
    #expect(rejected.reason == "rejected" && rejected.className == "bulk" && !rejected.isAmbiguous)
    // RabbitMQ 3.10 turns the earlier ones round with each that comes.
    let turned = letter([("expired", "push.retry.bulk.5"), ("rejected", "push.jobs.bulk")])
    #expect(turned.reason == "rejected" && turned.className == "bulk")
    let limited = letter([("delivery_limit", "push.jobs.isolated")], [AMQPArgument("x-herald-class", .text("bulk"))])
    #expect(limited.reason == "delivery_limit" && limited.className == "bulk" && limited.isAmbiguous)
    #expect(letter([("rejected", "push.channels.isolated")]).className == "channels")
    #expect(letter([("rejected", "push.expansions")]).className == "transactional")
    let older = letter(
      [], [AMQPArgument("x-herald-reason", .text("invalid")), AMQPArgument("x-herald-detail", .text("to: is missing"))])
    #expect(older.reason == "invalid" && older.detail == "to: is missing" && older.className == nil)
    // RabbitMQ names our queue as the first, too.
    #expect(letter([], [AMQPArgument("x-first-death-reason", .text("rejected"))]).reason == "unroutable")
  }
}
