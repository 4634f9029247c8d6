import Logging
import PushCore
import PushLane
import PushSettings
import PushWorker
import Synchronization
import TestSupport
import Testing

/// A server that a lane waits for stops silently. Its own timeout is longer than these tests, so the lane
/// notices, restarts the connection, and goes on.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct WorkerStandstillTests {
  private func expectRestarted(
    _ worker: StandingWorker, at step: DeliveryStep, _ location: SourceLocation = #_sourceLocation
  ) async throws {
    try await worker.wait("a restart", location) { report in report.restarts[step.rawValue] > 0 }
    #expect(
      worker.log.contains("error stands still: nothing was settled for"), "\(worker.log)", sourceLocation: location)
    #expect(worker.log.contains("its connections are made anew"), "\(worker.log)", sourceLocation: location)
  }

  @Test func aFrozenRedisIsGivenUp() async throws {
    let redis = try RedisServer()
    let world = try WorkerWorld("standing-redis", redisURL: redis.url)
    let worker = try StandingWorker(world) {
      $0.replacing("timeout_ms: 500}", with: "timeout_ms: 10000}").replacing(
        "request_timeout_ms: 5000", with: "request_timeout_ms: 20000")
    }
    try world.publishJobs(0..<5)
    try world.waitForAccepted(5)
    redis.pause()
    try world.publishJobs(5..<40)
    try await expectRestarted(worker, at: .admitting)
    try world.waitForAccepted(40)
    #expect(worker.log.contains("given up; this lane's own memory stands in"), "\(worker.log)")
    #expect(!worker.log.contains("did not answer within"), "the restart came first\n\(worker.log)")
    try await worker.wait("an end of the standstill") { $0.standstill == nil && $0.jobsInFlight == 0 }
    redis.resume()
    try await worker.wait("Redis") { $0.isRedisUp == true && $0.redisDegraded.allSatisfy { !$0.isDegraded } }
    let before = try await worker.report().decidedLocally.map(\.count)
    try world.publishJobs(40..<60)
    try world.waitForAccepted(60)
    #expect(try await worker.report().decidedLocally.map(\.count) == before, "Redis decides again")
    await worker.drain()
    #expect(try world.expectAccepted(0..<60) <= 35)
    redis.stop()
  }

  /// One connection to APNs answers only pings.
  @Test func aConnectionThatAnswersNothingIsGivenUp() async throws {
    var options = WorkerWorld.Options()
    options.drainTimeoutSeconds = 120
    // A pool begins with an eighth of it on the wire: all jobs.
    options.prefetch = 400
    let world = try WorkerWorld("standing-apns", options: options)
    let worker = try StandingWorker(world) { $0.replacing("timeout_ms: 5000", with: "timeout_ms: 120000") }
    try world.publishJobs(0..<5)
    try world.waitForAccepted(5)
    try world.simulator.setFaults("connection=1,silence")
    try world.publishJobs(5..<40)
    try await expectRestarted(worker, at: .sent)
    try world.waitForAccepted(40)
    try await worker.wait("an end of the standstill") { $0.standstill == nil && $0.jobsInFlight == 0 }
    let report = try await worker.report()
    #expect(report.connectionsOpened == 2)
    #expect(report.restarts.reduce(0, +) == 1)
    await worker.drain()
    _ = try world.expectAccepted(0..<40)
    let ambiguous = Set(try world.takeOutcomes().filter(\.ambiguous).compactMap(\.jobID))
    #expect(ambiguous == Set((5..<40).map { "job-\($0)" }), "it is unknown whether they were processed")
  }

  @Test func aFrozenBrokerIsLeft() async throws {
    let rabbitmq = try RabbitMQServer()
    let world = try WorkerWorld("standing-broker", rabbitmq: rabbitmq)
    let worker = try StandingWorker(world)
    try world.publishJobs(0..<5)
    try world.waitForAccepted(5)
    try world.simulator.setFaults("latency=1000")
    try world.publishJobs(5..<40)
    try await worker.wait("requests to APNs") { $0.jobsInFlight == 35 }
    rabbitmq.pause()
    try await expectRestarted(worker, at: .confirm)
    rabbitmq.resume()
    #expect(try await worker.logs("the lane stood still (waiting for a confirm)"), "\(worker.log)")
    try await worker.wait("the jobs again, and their end") {
      $0.isConsuming && $0.jobsInFlight == 0 && $0.standstill == nil
    }
    try world.simulator.clearFaults()
    try world.publishJobs(40..<60)
    try world.waitForAccepted(60)
    await worker.drain()
    _ = try world.expectAccepted(0..<60)
    #expect(try world.simulator.counters().duplicateIDs == 0, "Redis knew the answers")
    rabbitmq.stop()
  }
}

/// A worker with one lane in this process; one second without a settled job counts as a standstill.
private final class StandingWorker: Sendable {
  private let worker: Worker
  private let lines = LogLines()

  /// - Parameter change: changes the configuration's text.
  init(_ world: WorkerWorld, _ change: (String) -> String = { $0 }) throws {
    let file = try world.folder.write(change(world.configuration()), to: "standing.yaml")
    var settings = StandstillState.Settings()
    settings.alarmMilliseconds = 1_000
    settings.restartMilliseconds = 2_000
    worker = try Worker(
      try ConfigurationLoader.load(file: file), logger: Logger(label: "standing") { [lines] _ in lines },
      standstill: settings)
    try worker.start()
  }

  var log: String { lines.text }

  func drain() async { await worker.drain() }

  func report() async throws -> LaneReport { try #require(await worker.reports()[0]) }

  /// Waits until the lane reports this state.
  func wait(
    _ what: String, _ location: SourceLocation = #_sourceLocation, until isSo: (LaneReport) -> Bool
  ) async throws {
    let end = ContinuousClock.now.advanced(by: .seconds(40))
    while true {
      if let report = await worker.reports()[0], isSo(report) { return }
      try #require(ContinuousClock.now < end, "still not: \(what)\n\(log)", sourceLocation: location)
      try await Task.sleep(for: .milliseconds(20))
    }
  }

  /// Whether a line with this text is logged in time.
  func logs(_ text: String) async throws -> Bool {
    let end = ContinuousClock.now.advanced(by: .seconds(40))
    while !log.contains(text), ContinuousClock.now < end { try await Task.sleep(for: .milliseconds(20)) }
    return log.contains(text)
  }
}

private final class LogLines: LogHandler, @unchecked Sendable {
  private let lines = Mutex<[String]>([])
  var metadata: Logger.Metadata = [:]
  var logLevel = Logger.Level.info

  var text: String { lines.withLock { $0.joined(separator: "\n") } }

  subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  func log(event: LogEvent) {
    lines.withLock { $0.append("\(event.level) \(event.message) \(event.metadata ?? [:])") }
  }
}
