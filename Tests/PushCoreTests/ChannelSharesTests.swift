import PushCore
import Testing

/// What each credential and environment may take of the channel requests in progress.
@Suite struct ChannelSharesTests {
  private static let sandbox = ChannelPoolID(credential: "main", environment: .sandbox)
  private static let production = ChannelPoolID(credential: "main", environment: .production)

  /// A consumer in virtual time, beside pools that answer after a while, or badly.
  private struct Bench {
    struct Running {
      let number: Int
      let pool: ChannelPoolID
      let asked: UInt32
      let endsAt: Int64
    }

    enum Behaviour {
      case answers(afterMilliseconds: Int64)
      case fails(afterMilliseconds: Int64)
    }

    var shares: ChannelShares<Int>
    var behaviours: [ChannelPoolID: Behaviour]
    /// In the queue.
    var queue: [(number: Int, pool: ChannelPoolID)] = []
    var taken = 0
    var deliveries = 0
    /// By the time at which they come back.
    var later: [Int64: [(number: Int, pool: ChannelPoolID)]] = [:]
    var running: [Running] = []
    var done: [Int: Int64] = [:]
    var milliseconds: Int64 = 0
    var random = SeededRandom(seed: 1)
    static let prefetch = 320

    init(_ behaviours: [ChannelPoolID: Behaviour]) {
      var window = ShareState.Limits(maximum: 64)
      window.start = 16
      window.probes = 4
      window.stuckLooks = 10
      shares = ChannelShares(
        limits: FairShareLimits(progressMaximum: 192, slowWaitingMaximum: 64, slowMilliseconds: 1_000), window: window,
        slowMaximum: 32, now: Instant(nanoseconds: 0))
      self.behaviours = behaviours
    }

    var now: Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

    func inProgress(of pool: ChannelPoolID) -> Int { running.count { $0.pool == pool } }

    private mutating func begin(_ number: Int, _ pool: ChannelPoolID) {
      let asked = shares.asked(pool)
      let after =
        switch behaviours[pool] {
        case .answers(let milliseconds), .fails(let milliseconds): milliseconds
        case nil: 0 as Int64
        }
      running.append(Running(number: number, pool: pool, asked: asked, endsAt: milliseconds + after))
    }

    private mutating func end(_ request: Running) {
      var isGood = false
      if case .answers = behaviours[request.pool] { isGood = true }
      shares.answered(request.pool, isGood ? .good : .bad, since: request.asked)
      shares.leave(request.pool)
      deliveries -= 1
      if isGood { done[request.number] = milliseconds } else { putOff(request.number, request.pool, slow: 0) }
    }

    private mutating func putOff(_ number: Int, _ pool: ChannelPoolID, slow: Int64) {
      let seconds = FairShareLimits.delaySeconds(
        slowMilliseconds: min(slow, milliseconds), of: [1, 5, 30], random: random.next())
      later[milliseconds + Int64(seconds) * 1_000, default: []].append((number, pool))
    }

    /// A millisecond; the broker takes five copies in it.
    mutating func step() {
      milliseconds += 1
      for request in running where request.endsAt <= milliseconds { end(request) }
      running.removeAll { $0.endsAt <= milliseconds }
      queue += later.removeValue(forKey: milliseconds) ?? []
      let limit = taken + 5
      while deliveries < Bench.prefetch, taken < limit, taken < queue.count {
        let (number, pool) = queue[taken]
        deliveries += 1
        taken += 1
        if shares.enter(number, of: pool, now: now) { begin(number, pool) }
      }
      shares.looked(now: now)
      while let (number, pool) = shares.next() { begin(number, pool) }
      for (number, slow) in shares.takeExcess(now: now) {
        deliveries -= 1
        putOff(number, number >= 0 ? ChannelSharesTests.sandbox : ChannelSharesTests.production, slow: slow)
      }
    }
  }

  enum Trouble: CaseIterable { case silent, slow, refusing, unreachable }

  private func behaviour(_ trouble: Trouble) -> Bench.Behaviour {
    switch trouble {
    case .silent: .fails(afterMilliseconds: 10_000)
    case .slow: .answers(afterMilliseconds: 9_000)
    case .refusing: .fails(afterMilliseconds: 20)
    case .unreachable: .fails(afterMilliseconds: 500)
    }
  }

  /// N requests of a stuck pool in front: 2 s and 0.2 ms for each, at once and while they come back.
  @Test(arguments: Trouble.allCases, [400, 3_000]) func aStuckPoolHoldsUpNoOther(trouble: Trouble, count: Int) {
    var bench = Bench([
      Self.sandbox: behaviour(trouble), Self.production: .answers(afterMilliseconds: 100),
    ])
    bench.queue = (0..<count).map { ($0, Self.sandbox) }
    for round in 1...20 {
      let published = bench.milliseconds
      bench.queue.append((-round, Self.production))
      while bench.done[-round] == nil, bench.milliseconds < published + 60_000 { bench.step() }
      let waited = (bench.done[-round] ?? .max) - published
      #expect(waited <= 2_000 + Int64(count) / 5, "\(trouble), the \(round)th")
      if bench.milliseconds > 12_000 {
        #expect(bench.inProgress(of: Self.sandbox) <= (trouble == .slow ? 32 : 4), "probes, and what is slow")
      }
      for _ in 0..<300 { bench.step() }
    }
    // It recovers, and all of them are answered.
    bench.behaviours[Self.sandbox] = .answers(afterMilliseconds: 100)
    let recovered = bench.milliseconds
    while bench.done.keys.count(where: { $0 >= 0 }) < count, bench.milliseconds < recovered + 120_000 { bench.step() }
    #expect(bench.done.keys.count { $0 >= 0 } == count)
  }

  /// Many pools that never answered leave room for one more.
  @Test func manySilentPoolsLeaveRoom() {
    let silent = (0..<40).map { ChannelPoolID(credential: "c-\($0)", environment: .production) }
    var bench = Bench([Self.production: .answers(afterMilliseconds: 100)])
    for pool in silent { bench.behaviours[pool] = .fails(afterMilliseconds: 5_000) }
    for pool in silent { for number in 0..<3 { bench.queue.append((number, pool)) } }
    bench.queue.append((-1, Self.production))
    while bench.done[-1] == nil, bench.milliseconds < 10_000 { bench.step() }
    #expect(bench.done[-1] ?? .max <= 1_000)
  }

  /// A pool that answers is not put off, however many wait, as long as none waits for long; its window grows.
  @Test func aPoolThatAnswersIsNotPutOff() {
    var bench = Bench([Self.production: .answers(afterMilliseconds: 50)])
    bench.queue = (1...640).map { (-$0, Self.production) }
    while bench.done.count < 640, bench.milliseconds < 10_000 {
      bench.step()
      #expect(bench.later.isEmpty)
    }
    #expect(bench.milliseconds < 2_000, "64 at a time")
  }
}
