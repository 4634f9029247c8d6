import ArgumentParser
import BasicContainers
import Foundation
import PushCore
import PushIO
import PushLane

struct RedisBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "redis",
    abstract:
      "Admits jobs through a real Redis and remembers their outcomes, as a busy lane does.",
    discussion: """
      Flat out it shows the CPU of worker and server for a job. With --rate it shows how long an admission waits for its \
      answer, and how long an outcome is on its way: a worker that dies in that time sends the job again.
      """)

  @OptionGroup var options: BenchOptions

  @Option(help: "Where Redis is. Default: HERALD_REDIS_URL, else 127.0.0.1:6379.")
  var url: String?

  @Option(help: "Jobs a second; 0: as many as there can be.")
  var rate = 0

  @Option(help: "Jobs that Redis remembers already: with 700000 its tables do not grow while it is measured.")
  var remembered = 0

  @Option(help: "Devices that the jobs are for, in turn; 0: another one for each job.")
  var devices = 0

  /// The write of one outcome in this many is timed.
  private static let sampleInterval = 64
  /// Maximum in flight, and maximum of admissions in one turn: a lane with a prefetch of 2000, half for each class.
  private static let inFlightMaximum = 1000
  private static let asksPerTurn = 128

  func validate() throws {
    if rate < 0 { throw ValidationError("--rate must be at least 0, not \(rate)") }
    if devices < 0 { throw ValidationError("--devices must be at least 0, not \(devices)") }
    if remembered < 0 { throw ValidationError("--remembered must be at least 0, not \(remembered)") }
  }

  func run() throws {
    let address = url ?? BenchRedis.url
    let configuration = try RedisConfiguration(url: address)
    let session = try BenchRedis.session(address)
    defer { session.close() }
    var figures = Figures()
    for run in 0..<options.runs {
      let loop = try EventLoop()
      var settings = RedisAdmissionStoreSettings()
      // As short as the usual one, `push:`, because Redis hashes and compares the whole key.
      settings.prefix = "b\(UUID().uuidString.prefix(3)):"
      settings.limits = RateLimits(RateLimit(burst: 10, perSecond: 1))
      let state = RedisAdmissionStore(
        loop: loop, configuration: configuration, tls: nil, settings: settings, seed: UInt64(run))
      state.connect()
      let deadline = loop.now.monotonic.adding(milliseconds: 3000)
      while !state.isConnected {
        loop.flush()
        loop.poll(maximumWaitMilliseconds: 50)
        _ = state.nextAdmission(now: loop.now)
        if loop.now.monotonic > deadline { throw SimulatorProcess.Failure(description: "no Redis at \(address)") }
      }
      if remembered > 0 {
        var unreported = Times()
        try drive(state, loop, 0..<remembered, rate: 0, &unreported)
        // Most of their rate keys expire meanwhile; Redis deletes the rest gradually, as usual.
        Thread.sleep(forTimeInterval: 3)
      }
      let serverUsed = try BenchRedis.cpuMicroseconds(session)
      let used = ProcessUsage.current.cpuMicroseconds
      let start = ContinuousClock.now
      var times = Times()
      try drive(state, loop, remembered..<remembered + options.jobs, rate: rate, &times)
      let jobs = Double(options.jobs)
      let elapsed = microseconds(since: start)
      figures.add(
        "worker: admit and remember", Double(ProcessUsage.current.cpuMicroseconds - used) / jobs, "CPU µs/job")
      figures.add("server", (try BenchRedis.cpuMicroseconds(session) - serverUsed) / jobs, "CPU µs/job")
      figures.add("rate", jobs / elapsed * 1e6, "jobs/s")
      if rate > 0 {
        figures.add("admission, median", times.quantile(\.admissions, 0.5), "ms")
        figures.add("admission, 99 %", times.quantile(\.admissions, 0.99), "ms")
        figures.add("outcome on its way, median", times.quantile(\.memories, 0.5), "ms")
        figures.add("outcome on its way, 99 %", times.quantile(\.memories, 0.99), "ms")
      }
      state.close()
      loop.flush()
      try BenchRedis.remove(prefix: settings.prefix, from: session)
    }
    try figures.show("redis: \(options.jobs) jobs, a part of a script call and one APPEND each", json: options.json)
  }

  /// Measured times, milliseconds.
  private struct Times {
    var admissions: [Double] = []
    var memories: [Double] = []

    func quantile(_ values: KeyPath<Times, [Double]>, _ part: Double) -> Double {
      let sorted = self[keyPath: values].sorted()
      return sorted.isEmpty ? 0 : sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
    }
  }

  /// Changes the job's token and hashes the device, as a lane does.
  private func device(_ number: Int, _ job: inout PushJob) -> TargetKey {
    let start = job.targets[0].range.lowerBound
    for digit in 0..<8 { job.bytes[start + digit] = UInt8(ascii: "0") + UInt8(number >> (digit * 3) & 7) }
    return TargetKey(job, target: 0)
  }

  /// `rate`: jobs a second; 0: as many as possible. A parameter, because reading an option costs a look-up each time.
  private func drive(
    _ state: RedisAdmissionStore, _ loop: EventLoop, _ numbers: Range<Int>, rate: Int, _ times: inout Times
  ) throws {
    let window = RedisBench.inFlightMaximum
    var jobs = RigidArray<PushJob>(capacity: window)
    var parser = JobParser()
    let none: [UInt8] = []
    for number in 0..<window {
      var job = PushJob()
      job.bytes = SampleJobs.body(number)
      job.bodyCount = job.bytes.count
      try parser.parse(into: &job, fallbackID: none.span)
      jobs.append(job)
    }
    let count = numbers.count
    let deviceCount = devices
    var asked = 0
    var answered = 0
    var keys = Array(repeating: TargetKey(high: 0, low: 0), count: window)
    var askedAt = Array(repeating: ContinuousClock.now, count: window)
    var samples: [UInt64: ContinuousClock.Instant] = [:]
    let start = ContinuousClock.now
    while answered < count {
      let due = rate == 0 ? count : min(count, Int(microseconds(since: start) * Double(rate) / 1e6) + 1)
      let turnEnd = min(due, asked + RedisBench.asksPerTurn)
      while asked < turnEnd, asked - answered < window {
        let id = UUIDValue(high: 1, low: UInt64(numbers.lowerBound + asked))
        let number = numbers.lowerBound + asked
        keys[asked % window] = device(deviceCount > 0 ? number % deviceCount : number, &jobs[asked % window])
        let ticket = Ticket(index: UInt32(asked % window), generation: UInt32(asked))
        if rate > 0 { askedAt[asked % window] = .now }
        state.admit(
          jobs[asked % window], device: keys[asked % window], apnsID: id,
          arrival: JobArrival(enqueuedAt: loop.now.unixMilliseconds, claim: UInt32(truncatingIfNeeded: number) | 1),
          ticket: ticket, now: loop.now)
        asked += 1
      }
      state.flush(now: loop.now)
      loop.flush()
      let hasMore = asked < due && asked - answered < window
      loop.poll(maximumWaitMilliseconds: hasMore ? 0 : rate == 0 ? 100 : 1)
      while let (ticket, _) = state.nextAdmission(now: loop.now) {
        answered += 1
        if rate > 0 { times.admissions.append(microseconds(since: askedAt[Int(ticket.index)]) / 1000) }
        let outcome = RememberedOutcome(
          outcome: .accepted, status: 200, attempts: 1, sentAt: loop.now.unixMilliseconds,
          completedAt: loop.now.unixMilliseconds)
        let id = UUIDValue(high: 1, low: UInt64(numbers.lowerBound) + UInt64(ticket.generation))
        state.remember(outcome, device: keys[Int(ticket.index)], apnsID: id, now: loop.now)
        // Its reply comes after the outcome's, on the same connection.
        if rate > 0, answered % RedisBench.sampleInterval == 0, let tag = state.request(["PING"]) {
          samples[tag] = .now
        }
      }
      while let (tag, _) = state.nextReply() {
        if let since = samples.removeValue(forKey: tag) { times.memories.append(microseconds(since: since) / 1000) }
      }
    }
  }
}
