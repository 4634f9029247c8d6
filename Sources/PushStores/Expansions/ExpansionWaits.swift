import Logging
import PushCore
import PushIO
import PushLane

/// Messages that wait for Redis, or for open pages.
extension ExpansionRunner {
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
