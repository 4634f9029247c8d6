import ArgumentParser
import BasicContainers
import Foundation
import PushCore
import PushIO
import PushWorker

struct RedisBench: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "redis", abstract: "Admits jobs through a real Redis and remembers their outcomes, 100 in flight.")

  @OptionGroup var options: BenchOptions

  @Option(help: "Where Redis is. Default: HERALD_REDIS_URL, else 127.0.0.1:6379.")
  var url: String?

  func run() throws {
    let address = url ?? ProcessInfo.processInfo.environment["HERALD_REDIS_URL"] ?? "redis://127.0.0.1:6379/0"
    var figures = Figures()
    for run in 0..<options.runs {
      let loop = try EventLoop()
      var settings = RedisSharedStateSettings()
      settings.prefix = "bench:\(UUID().uuidString.prefix(8)):"
      settings.timeoutMilliseconds = 1000
      settings.limit = RateLimit(burst: 10, perSecond: 1)
      let state = RedisSharedState(
        loop: loop, configuration: try RedisConfiguration(url: address), tls: nil, settings: settings, seed: UInt64(run)
      )
      state.connect()
      let deadline = loop.now.monotonic.adding(milliseconds: 3000)
      while !state.isConnected {
        loop.flush()
        loop.poll(maximumWaitMilliseconds: 50)
        _ = state.nextAdmission(now: loop.now)
        if loop.now.monotonic > deadline { throw SimulatorProcess.Failure(description: "no Redis at \(address)") }
      }
      let used = ProcessUsage.current.cpuMicroseconds
      let start = ContinuousClock.now
      try drive(state, loop)
      figures.add(
        "admit and remember", Double(ProcessUsage.current.cpuMicroseconds - used) / Double(options.jobs), "CPU µs/job")
      figures.add("rate", Double(options.jobs) / microseconds(since: start) * 1e6, "jobs/s")
      state.close()
      loop.flush()
    }
    try figures.show("redis: \(options.jobs) jobs, one script call and one SET each", json: options.json)
  }

  private func drive(_ state: RedisSharedState, _ loop: EventLoop) throws {
    let window = 100
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
    var asked = 0
    var answered = 0
    while answered < options.jobs {
      while asked < options.jobs, asked - answered < window {
        let id = UUIDValue(high: 1, low: UInt64(asked))
        let ticket = Ticket(index: UInt32(asked % window), generation: UInt32(asked))
        state.admit(jobs[asked % window], target: 0, apnsID: id, ticket: ticket, now: loop.now)
        asked += 1
      }
      loop.flush()
      loop.poll(maximumWaitMilliseconds: 100)
      while let (ticket, _) = state.nextAdmission(now: loop.now) {
        answered += 1
        let outcome = RememberedOutcome(
          outcome: .accepted, status: 200, attempts: 1, sentAt: loop.now.unixMilliseconds,
          completedAt: loop.now.unixMilliseconds)
        let id = UUIDValue(high: 1, low: UInt64(ticket.generation))
        state.remember(outcome, of: jobs[Int(ticket.index)], target: 0, apnsID: id, now: loop.now)
      }
    }
  }
}
