import LaneSimulation
import Testing

/// Worlds as hard as production, each with one kind of fault, and one with all of them. The auditor excuses nothing.
@Suite struct HardWorldTests {
  @Test(arguments: HardWorld.allCases) func nothingIsExcused(world: HardWorld) {
    for seed in 1...(world == .everything ? 12 : 4) as ClosedRange<UInt64> {
      var run = SimulatedRun(world, seed: seed) { SimulatedBroker(world: $0) }
      run.play()
      #expect(run.world.auditor.kinds.map(\.first) == [], "\(world.command(seed: seed))")
    }
  }

  /// Random seeds: each test run uses new ones.
  @Test func freshSeeds() {
    let first = UInt64.random(in: 1_000_000...1_000_000_000)
    for seed in first..<first + 5 {
      var run = SimulatedRun(.everything, seed: seed) { SimulatedBroker(world: $0) }
      run.play()
      #expect(run.world.auditor.kinds.map(\.first) == [], "\(HardWorld.everything.command(seed: seed))")
    }
  }
}
