import Foundation
import TestSupport
import Testing

/// A worker whose connections all break again and again under load holds no more descriptors, threads and memory than
/// at first.
///
/// Runs for seconds here; `scripts/steady --minutes M` runs longer, with restarted servers.
@Suite(.serialized, .timeLimit(.minutes(60)))
struct WorkerSteadyTests {
  /// A process's resources: `/proc/PID/fd`, and `Threads` and `VmRSS` of `/proc/PID/status`.
  private struct Held {
    var descriptors: Int
    var threads: Int
    var residentKibibytes: Int

    init?(pid: Int32) {
      guard let names = try? FileManager.default.contentsOfDirectory(atPath: "/proc/\(pid)/fd"),
        let status = try? String(contentsOfFile: "/proc/\(pid)/status", encoding: .utf8),
        let threads = Held.number("Threads:", in: status), let resident = Held.number("VmRSS:", in: status)
      else { return nil }
      descriptors = names.count
      self.threads = threads
      residentKibibytes = resident
    }

    private static func number(_ name: String, in status: String) -> Int? {
      status.split(separator: "\n").first { $0.hasPrefix(name) }?.split(whereSeparator: { !$0.isNumber }).first
        .flatMap { Int($0) }
    }
  }

  private static let jobsEach = 400
  private static let warmUp = 3

  /// The duration in seconds, unless a script asks for more.
  private var seconds: Int { ProcessInfo.processInfo.environment["HERALD_STEADY_SECONDS"].flatMap { Int($0) } ?? 0 }

  @Test func brokenConnectionsLeaveNothingBehind() throws {
    let isLong = seconds > 0
    let rabbitmq = try isLong ? RabbitMQServer() : RabbitMQServer.shared()
    let redis = try RedisServer()
    var options = WorkerWorld.Options()
    options.lanes = 2
    let world = try WorkerWorld("steady", rabbitmq: rabbitmq, redisURL: redis.url, options: options)
    try world.simulator.setFaults("latency=5-20\nafter=99,goaway=this\nafter=249,drop")
    // With one connection a lane, no pool grows during the test.
    let file = world.configuration().replacing(
      "request_timeout_ms: 5000", with: "request_timeout_ms: 5000\n  connections_max: 1")
    #expect(file.contains("connections_max"))
    let worker = try world.startWorker(configuration: file)
    #expect(world.waitUntilReady(), "\(worker.log)")
    let clock = ContinuousClock()
    let begun = clock.now
    var samples: [Held] = []
    while samples.count < 9 || clock.now - begun < .seconds(seconds) {
      let first = samples.count * Self.jobsEach
      try publish(first..<first + Self.jobsEach / 2, world)
      if samples.count % 2 == 0 {
        redis.kill()
        try redis.start()
      } else if isLong {
        rabbitmq.kill()
        try rabbitmq.start()
      } else {
        try rabbitmq.rabbitmqctl(["close_all_connections", "a test"])
      }
      try publish(first + Self.jobsEach / 2..<first + Self.jobsEach, world)
      try world.waitForAccepted(first + Self.jobsEach, seconds: 90)
      #expect(world.waitUntilReady(seconds: 60), "\(worker.log)")
      let held = try #require(Held(pid: worker.child.pid), "the worker runs")
      samples.append(held)
      if isLong {
        print(
          "\((clock.now - begun).components.seconds) s: \(held.descriptors) descriptors, \(held.threads) threads, "
            + "\(held.residentKibibytes / 1024) MiB")
      }
    }
    let steady = samples.dropFirst(Self.warmUp)
    // In each lane, a replaced connection may still finish its requests.
    expectFlat("descriptors", steady.map(\.descriptors), slack: options.lanes)
    expectFlat("threads", steady.map(\.threads), slack: 0)
    expectFlat("KiB resident", steady.map(\.residentKibibytes), slack: 2_048)
    #expect(worker.drain(seconds: world.options.drainTimeoutSeconds) == 0, "\(worker.log)")
    print("\(samples.count) rounds, \(samples.count * Self.jobsEach) jobs, each round with its connections broken")
  }

  /// Retries while the broker is not ready: its port opens before its queues do. A job that is published twice is still
  /// one job.
  private func publish(_ numbers: Range<Int>, _ world: WorkerWorld) throws {
    let isPublished = ChildProcess.poll(timeoutMilliseconds: 90_000, everyMilliseconds: 500) {
      (try? world.publishJobs(numbers)) == nil ? nil : true
    }
    try #require(isPublished == true, "jobs \(numbers) are not published")
  }

  /// A leak grows with every round: then the minimum of the last third is above the maximum of the first third.
  /// A value that only varies, such as the number of connections to APNs, is not.
  private func expectFlat(
    _ name: String, _ values: [Int], slack: Int, _ location: SourceLocation = #_sourceLocation
  ) {
    let third = max(1, values.count / 3)
    guard let most = values.prefix(third).max(), let least = values.suffix(third).min() else { return }
    print("\(name): at most \(most) in the first third, at least \(least) in the last")
    #expect(least <= most + slack, "\(name) grow: \(values)", sourceLocation: location)
  }
}
