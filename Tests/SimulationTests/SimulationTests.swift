import LaneSimulation
import Testing

/// The whole lane over a simulated world. A failing seed reproduces exactly: run its number alone.
@Suite struct SimulationTests {
  /// Without faults: everything is sent exactly once, and no outcome is marked ambiguous.
  @Test(arguments: 1...20 as ClosedRange<UInt64>) func nothingGoesWrong(seed: UInt64) {
    var run = SimulatedRun(seed: seed, faults: Faults()) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.violations == [], "seed \(seed)")
    #expect(run.world.auditor.marked.isEmpty, "seed \(seed)")
  }

  /// Half of all retry copies are delivered twice.
  static var copiesTwice: Faults {
    var faults = Faults()
    faults.handedOnTwice = 500
    faults.serverError = 300
    return faults
  }

  /// Only retry copies are delivered twice: each target that APNs accepted twice is marked, and none is missed.
  @Test(arguments: 1...20 as ClosedRange<UInt64>) func aCopyThatComesTwiceIsMarked(seed: UInt64) {
    var run = SimulatedRun(seed: seed, faults: SimulationTests.copiesTwice) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.violations == [], "seed \(seed)")
    #expect(!run.world.broker.handedOnTwice.isEmpty, "seed \(seed)")
    let unexplained = run.world.auditor.marked.subtracting(run.world.broker.handedOnTwice).count
    #expect(unexplained == 0, "seed \(seed)")
  }

  /// With all main faults: nothing is lost, and nothing happens twice without a reason.
  @Test(arguments: 1...60 as ClosedRange<UInt64>) func everythingGoesWrong(seed: UInt64) {
    var run = SimulatedRun(seed: seed, faults: .many) { SimulatedBroker(world: $0) }
    run.play()
    #expect(run.world.auditor.violations == [], "seed \(seed)")
  }

  /// A worker that dies at any step of a run: each step once.
  @Test func aWorkerKilledAtEveryStep() {
    var settings = WorldSettings()
    settings.jobs = 6
    settings.stepMilliseconds = 10
    var whole = SimulatedRun(seed: 5, faults: Faults(), settings: settings) { SimulatedBroker(world: $0) }
    whole.play()
    #expect(whole.world.auditor.violations.isEmpty && whole.steps > 20)
    for step in 1...whole.steps {
      var run = SimulatedRun(seed: 5, faults: Faults(), settings: settings, killedAt: step) {
        SimulatedBroker(world: $0)
      }
      run.play()
      #expect(run.world.auditor.violations == [], "killed at step \(step)")
    }
  }

  /// The same seed gives the same run.
  @Test func aSeedIsARun() {
    var first = SimulatedRun(seed: 7, faults: .many) { SimulatedBroker(world: $0) }
    var second = SimulatedRun(seed: 7, faults: .many) { SimulatedBroker(world: $0) }
    first.play()
    second.play()
    #expect(first.world.milliseconds == second.world.milliseconds)
    #expect(first.world.pick(1_000_000) == second.world.pick(1_000_000))
  }
}
