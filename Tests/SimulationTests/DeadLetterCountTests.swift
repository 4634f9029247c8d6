import LaneSimulation
import PushCore
import PushLane
import PushSettings
import Testing

/// `herald_dead_letters_total` counts dead letters, not publishes.
@Suite struct DeadLetterCountTests {
  @Test func aDeadLetterCountsOnceHoweverOftenItIsPublished() {
    var faults = Faults()
    faults.publishRefused = 500
    let world = SimulatedWorld(seed: 1, faults: faults)
    let settings = LaneSettings(
      workerName: "simulated/0", prefetch: 20, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1000,
      randomSeed: 1)
    var lane = Lane(
      broker: SimulatedBroker(world: world), state: SimulatedAdmissionStore(world: world),
      push: SimulatedAPNs(world: world),
      clock: SimulatedClock(world: world), settings: settings)
    for number in 0..<10 {
      let body = "{\"version\":1,\"id\":\"wrong-\(number)\",\"token\":\"00\"}"
      world.broker.ready.append(
        Message(
          body: Array(body.utf8), state: nil, jobClass: .transactional,
          targets: [Target(job: "wrong-\(number)", token: "00")]))
    }
    for _ in 0..<100_000 where !(world.broker.isEmpty && lane.jobsInFlight == 0) {
      world.milliseconds += 10
      lane.broker.step()
      lane.turn()
    }
    #expect(world.broker.isEmpty && lane.jobsInFlight == 0)
    #expect(lane.broker.lastSequence > 20, "some were refused and published again")
    #expect(lane.counters.deadLetters == ["invalid": 10])
  }
}
