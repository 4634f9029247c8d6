import Foundation
import Testing
import WorkerSimulation

/// Whole workers, and messages with forged headers, properties and bodies on every queue that they consume. Whatever arrives: no worker
/// ends by itself, what they publish is valid, and the other jobs have their outcomes. A trap ends the test process; the seed is printed
/// before. `HERALD_FUZZ_SEED=1000 HERALD_FUZZ_ROUNDS=60` plays the seeds 1000 to 1059.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct ForgedMessageTests {
  private static let seeds: [UInt64] = {
    let environment = ProcessInfo.processInfo.environment
    let first = environment["HERALD_FUZZ_SEED"].flatMap { UInt64($0) } ?? 1
    let rounds = environment["HERALD_FUZZ_ROUNDS"].flatMap { UInt64($0) } ?? 6
    return (0..<rounds).map { first &+ $0 }
  }()

  @Test(arguments: seeds) func forgedMessages_harmNoOtherJob(seed: UInt64) throws {
    FileHandle.standardError.write(Data("forged messages, seed \(seed)\n".utf8))
    var settings = WorkerWorld.Settings()
    settings.jobs = 20
    settings.hasPlainJobs = true
    settings.forgedMessages = 150
    settings.lanes = 1
    settings.audienceDevices = 6
    settings.stormMilliseconds = 10_000
    let world = try WorkerWorld(seed: seed, settings: settings)
    try world.run()
    #expect(world.auditor.violations == [])
    #expect(world.auditor.publishedCount == 20 && world.auditor.reportedCount == 20)
    #expect(world.forgeries.answeredCount > 20 && world.forgeries.deadCount > 10, "the messages reached the workers")
  }
}
