import Logging
import PushCore
import PushIO
import PushLane

/// Messages that wait for Redis, or for open pages, and messages that several deliveries did not finish.
extension ExpansionRunner {
  /// After this many unfinished deliveries, a copy replaces a message: the broker moves one that reaches its own limit
  /// (`Topology.deliveryLimit`) to the dead letters, without an outcome.
  private static let copiedDeliveries: UInt32 = 10
  /// After this many in all, it is given up: it may be what ends workers.
  private static let deliveriesMaximum: UInt32 = 50

  /// Replaces a message that several deliveries did not finish by a copy, or gives it up. false: it is processed as usual.
  func replace(_ delivery: ExpansionDelivery) -> Bool {
    let metadata = delivery.metadata
    let (sum, isTooMany) = metadata.carriedDeliveries.addingReportingOverflow(metadata.deliveryCount)
    let count = isTooMany ? .max : sum
    if count >= ExpansionRunner.deliveriesMaximum {
      giveUp(delivery, "given up: \(count) deliveries were not finished")
      return true
    }
    guard metadata.deliveryCount >= ExpansionRunner.copiedDeliveries else { return false }
    notice(.warning, "a message of an audience was delivered \(count) times and not finished: a copy replaces it")
    let target = Publish.Target.retry(seconds: Topology.expansionDelaysSeconds[0], deliveries: count)
    delivery.publish([Publish(target: target, body: delivery.body, metadata: metadata)]) { delivery.finish() }
    return true
  }

  /// Its job ends as `failed`, where that is known. Redis keeps what is known of the job: the dead letter can be replayed.
  private func giveUp(_ delivery: ExpansionDelivery, _ detail: String) {
    notice(.error, "a message of an audience is \(detail); it is in the dead letters")
    var publishes: [Publish] = []
    var job = PushJob()
    let body = delivery.body
    if !PageSettlement.isSettlement(body.span), (try? read(delivery, into: &job)) != nil {
      let record = OutcomeRecord(
        outcome: .failed, detail: detail, attempts: 0, enqueuedAt: delivery.metadata.enqueuedAt,
        receivedAt: delivery.firstSeen, sentAt: nil, completedAt: loop.now.unixMilliseconds)
      publishes.append(outcome(record, job, delivery.metadata))
    }
    publishes.append(Publish(target: .failed(detail: detail), body: body, metadata: delivery.metadata))
    delivery.publish(publishes) { delivery.finish() }
  }

  /// Redis did not answer: the message is retried, and nothing is lost.
  func waitForRedis(_ delivery: ExpansionDelivery, _ text: String) {
    counters.waitsForRedis += 1
    notice(.warning, "redis: \(text); audiences wait")
    wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
  }

  /// Replaces the message by a copy that returns later.
  func wait(_ delivery: ExpansionDelivery, seconds: Int) {
    delivery.publish([Publish(target: .retry(seconds: seconds), body: delivery.body, metadata: delivery.metadata)]) {
      delivery.finish()
    }
  }

  /// Grows with the time it has waited: a command is noticed soon if it is expected soon.
  static func delay(waited milliseconds: Int64) -> Int {
    let delays = Topology.expansionDelaysSeconds
    return delays.last { Int64($0) * 4000 <= milliseconds } ?? delays[0]
  }

  /// A step waits no longer for open pages: where Redis failed over and lost their ends, they are open for ever, and the devices of later
  /// steps would be missed.
  private static let fullMilliseconds: Int64 = 600_000
  /// More are forgotten, and wait anew.
  private static let fullMaximum = 1_000

  /// From this number of open pages on the step waits.
  func openMaximum(_ step: Step) -> Int {
    guard let full = fullSince[step.id], full.step == step.cursor.step,
      loop.now.monotonic.milliseconds(since: full.since) >= ExpansionRunner.fullMilliseconds
    else { return settings.openPagesMaximum }
    return .max
  }

  func noteFull(_ step: Step) {
    if fullSince[step.id]?.step == step.cursor.step { return }
    if fullSince.count >= ExpansionRunner.fullMaximum { fullSince = [:] }
    fullSince[step.id] = (step.cursor.step, loop.now.monotonic)
  }
}
