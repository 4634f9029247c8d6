import PushCore
import PushIO
import PushLane
import Testing
import WorkerSimulation

/// A lane's admissions on a busy machine: its thread, not Redis, loses the processor for hundreds of milliseconds. On a simulated clock.
@Suite struct RedisSilenceTests {
  /// Where in its turn the thread loses the processor.
  enum Moment: CaseIterable {
    /// After the sockets were asked, before the clock is read.
    case insideThePoll
    /// After the questions were asked, before they are written.
    case beforeTheFlush
    /// After they were written.
    case afterTheFlush
  }

  enum Answer {
    case proceed, ambiguous, other

    init(_ admission: Admission) {
      switch admission {
      case .proceed: self = .proceed
      case .repeated(.proceed): self = .ambiguous
      case .duplicate, .dead, .limited, .superseded, .behind, .claimed, .repeated: self = .other
      }
    }
  }

  private final class Bench {
    let network = SimulatedNetwork(seed: 1)
    let redis = SimulatedRedis(seed: 1)
    let kernel: HeldKernel
    let loop: EventLoop
    let store: RedisAdmissionStore
    private(set) var admissions: [Answer] = []
    private(set) var notices: [AdmissionNotice] = []
    private var asked: UInt64 = 0

    init() throws {
      network.listen(redis.settings.port, redis)
      kernel = HeldKernel(SimulatedKernel(network, wallClockMilliseconds: 1_796_000_000_000))
      loop = EventLoop(kernel: kernel)
      store = RedisAdmissionStore(
        loop: loop, configuration: try RedisConfiguration(url: "redis://127.0.0.1:\(redis.settings.port)"), tls: nil,
        settings: RedisAdmissionStoreSettings(), seed: 1)
      store.connect()
      while !store.isConnected { turn(asking: 0) }
    }

    func pass(milliseconds: Int64) { network.advance(to: network.now + milliseconds * 1_000_000) }

    /// One turn, and 1 ms between two.
    func turn(asking count: Int, held moment: Moment? = nil, milliseconds: Int64 = 300) {
      pass(milliseconds: 1)
      if moment == .insideThePoll { kernel.afterWait = { [unowned self] in pass(milliseconds: milliseconds) } }
      loop.poll(maximumWaitMilliseconds: 0)
      for _ in 0..<count { ask() }
      while let (_, admission) = store.nextAdmission(now: loop.now) { admissions.append(Answer(admission)) }
      store.flush(now: loop.now)
      while let notice = store.nextNotice() { notices.append(notice) }
      if moment == .beforeTheFlush { pass(milliseconds: milliseconds) }
      loop.flush()
      if moment == .afterTheFlush { pass(milliseconds: milliseconds) }
    }

    private func ask() {
      asked += 1
      var job = PushJob()
      job.bytes = Array("com.example.app\(asked)".utf8)
      job.app = ByteRange(start: 0, count: 15)
      job.topic = job.app
      job.targets = [ByteRange(start: 15, count: job.bytes.count - 15)]
      store.admit(
        job, device: TargetKey(job, target: 0), apnsID: UUIDValue(high: 1, low: asked),
        arrival: JobArrival(
          enqueuedAt: loop.now.unixMilliseconds, claim: UInt32(asked), earlierClaim: 0, isReturning: false,
          takeover: .none),
        ticket: Ticket(index: UInt32(asked), generation: 1), now: loop.now)
    }
  }

  @Test(arguments: Moment.allCases)
  func aThreadThatStoodStillWaitsForWhatRedisSaid(moment: Moment) throws {
    let bench = try Bench()
    for round in 0..<200 {
      // Several calls in a turn, and some without a question: the answer of one turn meets the question of another.
      bench.turn(asking: round % 7 * 30, held: round % 3 == 0 ? moment : nil, milliseconds: Int64(100 + round * 5))
    }
    for _ in 0..<20 { bench.turn(asking: 0) }
    let count = (0..<200).reduce(0) { $0 + $1 % 7 * 30 }
    #expect(bench.admissions.count == count)
    #expect(bench.admissions.count { $0 != .proceed } == 0, "ambiguous, of \(count)")
    #expect(bench.store.counters.decidedLocally == 0)
    #expect(bench.notices.isEmpty)
  }

  @Test func aSilentRedisIsWaitedForOnce() throws {
    let bench = try Bench()
    bench.turn(asking: 5)
    for _ in 0..<10 { bench.turn(asking: 0) }
    #expect(bench.admissions == Array(repeating: .proceed, count: 5))
    bench.redis.stall()
    bench.turn(asking: 70)
    for _ in 0..<199 { bench.turn(asking: 0) }
    #expect(bench.admissions.count == 5, "it waits for redis.timeout_ms")
    for _ in 0..<5 { bench.turn(asking: 0) }
    #expect(bench.admissions.count == 75, "and a turn or two")
    #expect(bench.admissions.dropFirst(5).allSatisfy { $0 == .ambiguous })
    // While it stays silent nobody waits for as long again.
    for _ in 0..<50 {
      bench.turn(asking: 1)
      bench.turn(asking: 0)
    }
    #expect(bench.admissions.count == 125)
    bench.redis.resume(now: bench.network.now)
    bench.network.act(bench.redis)
    for _ in 0..<400 { bench.turn(asking: 0) }
    bench.turn(asking: 3)
    for _ in 0..<10 { bench.turn(asking: 0) }
    #expect(bench.admissions.dropFirst(125) == [.proceed, .proceed, .proceed])
  }
}
