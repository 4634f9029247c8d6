import PushCore
import PushLane
import Testing

/// Jobs for a pool that answers, and more slowly than they come, in front of others: the others have their outcome within 2 s and 0.2 ms for
/// each of them, also where the lane started in front of them and has seen nobody else.
@Suite struct CrowdedPoolTests {
  struct Pace: CustomTestStringConvertible, Sendable {
    let latency: Int64
    let streams: Int

    var pool: ScriptedPool { .answering(afterMilliseconds: latency, streams: streams) }
    var testDescription: String { "\(streams) streams, \(latency) ms" }

    static let all = [
      Pace(latency: 400, streams: 50), Pace(latency: 250, streams: 50), Pace(latency: 100, streams: 50),
      Pace(latency: 200, streams: 5), Pace(latency: 200, streams: 40), Pace(latency: 1_000, streams: 4_000),
    ]
  }

  enum Start: CaseIterable {
    /// In front of the backlog.
    case cold
    /// Both pools were in use.
    case warm
  }

  private static let healthy = ScriptedPool.answering(afterMilliseconds: 20, streams: 1_000)
  private static let count = 12_000

  private func limit(_ count: Int) -> Int64 { 2_000 + Int64(count) / 5 }

  private func warm(_ lanes: ScriptedLanes, _ jobClass: JobClass) {
    lanes.pools.publish(pool: 1, jobClass)
    lanes.pools.publish(pool: 0, jobClass)
    lanes.play(milliseconds: 3_000)
  }

  /// The longest wait of jobs of the other pool: some behind the backlog, others from time to time.
  private func longestOther(_ lanes: ScriptedLanes, _ jobClass: JobClass, behind: Int = 50) -> Int64 {
    let pools = lanes.pools
    var others = (0..<behind).map { _ in pools.publish(pool: 1, jobClass) }
    for _ in 0..<50 {
      lanes.play(milliseconds: 200)
      others.append(pools.publish(pool: 1, jobClass))
    }
    lanes.play(milliseconds: 5_000)
    return others.map { pools.waited($0) ?? .max }.max() ?? .max
  }

  @Test(arguments: Pace.all, Start.allCases)
  func theOthersGoOn(pace: Pace, start: Start) {
    for lanes in [1, 2] {
      for jobClass in JobClass.allCases {
        let lanes = ScriptedLanes(lanes, [pace.pool, Self.healthy])
        if start == .warm { warm(lanes, jobClass) }
        for _ in 0..<Self.count { lanes.pools.publish(pool: 0, jobClass) }
        let longest = longestOther(lanes, jobClass)
        #expect(longest <= limit(Self.count), "\(lanes), \(jobClass)")
        let contradiction = lanes.contradiction
        #expect(contradiction == nil)
      }
    }
  }

  @Test(arguments: [Pace(latency: 100, streams: 50), Pace(latency: 200, streams: 5)], Start.allCases)
  func alsoBesideBatches(pace: Pace, start: Start) {
    for jobClass in JobClass.allCases {
      let lanes = ScriptedLanes(1, [pace.pool, Self.healthy])
      if start == .warm { warm(lanes, jobClass) }
      for _ in 0..<12 { lanes.pools.publish(pool: 0, jobClass, targets: 1_000) }
      let longest = longestOther(lanes, jobClass)
      #expect(longest <= limit(Self.count), "\(jobClass)")
    }
  }

  /// Its new connections answer, each for a while, so that it is never stuck for long.
  @Test(arguments: [false, true], Start.allCases)
  func alsoWhereEachNewConnectionStalls(hangs: Bool, start: Start) {
    for lanes in [1, 2] {
      for jobClass in JobClass.allCases {
        let lanes = ScriptedLanes(lanes, [.stalling(afterAnswers: 300, hangs: hangs), Self.healthy])
        if start == .warm { warm(lanes, jobClass) }
        for _ in 0..<Self.count { lanes.pools.publish(pool: 0, jobClass) }
        let longest = longestOther(lanes, jobClass)
        #expect(longest <= limit(Self.count), "\(lanes), \(jobClass)")
      }
    }
  }

  /// A few deliveries of a class: none may be kept for others by a pool that does not answer.
  @Test(arguments: StuckPoolTests.Trouble.allCases, [(2, 50), (4, 50), (8, 100), (16, 500), (32, 500)])
  func alsoWithATinyPrefetch(trouble: StuckPoolTests.Trouble, size: (prefetch: Int, count: Int)) {
    for jobClass in JobClass.allCases {
      let lanes = ScriptedLanes(1, prefetch: size.prefetch, [trouble.pool, Self.healthy])
      for _ in 0..<size.count { lanes.pools.publish(pool: 0, jobClass) }
      let longest = longestOther(lanes, jobClass, behind: 5)
      #expect(longest <= 2_000 + Int64(size.count * 80 / size.prefetch), "\(jobClass)")
    }
  }

  enum Rule: CaseIterable {
    case unseen, seen, probes

    func drop(_ settings: inout LaneSettings) {
      switch self {
      case .unseen: settings.aloneStayLooks = 1_000_000
      case .seen: (settings.stayLooks, settings.slowMilliseconds) = (1_000_000, 60_000)
      case .probes: (settings.share.probes, settings.share.start) = (8, 8)
      }
    }
  }

  /// Without each of the rules others wait until they would have given up.
  @Test(arguments: Rule.allCases) func withoutTheRuleTheyWait(rule: Rule) {
    let slow = Pace(latency: 200, streams: 5).pool
    let first = rule == .probes ? .silent : slow
    let lanes = ScriptedLanes(1, prefetch: rule == .probes ? 16 : 2_000, [first, Self.healthy], rule.drop)
    if rule == .seen { warm(lanes, .bulk) }
    for _ in 0..<Self.count { lanes.pools.publish(pool: 0, .bulk) }
    let others = (0..<50).map { _ in lanes.pools.publish(pool: 1, .bulk) }
    lanes.play(milliseconds: 9_000)
    let late = others.count { lanes.pools.waited($0) == nil }
    #expect(late == 50, "after 9 s")
  }

  /// One tenant alone, at its start in front of a deep backlog: no job is put off.
  @Test(arguments: [12, 50, 100, 200] as [Int64])
  func aFastPoolAloneIsNeverPutOff(latency: Int64) {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: latency, streams: 8_000)])
    for _ in 0..<30_000 { lanes.pools.publish(pool: 0) }
    lanes.play(milliseconds: 2_000 + 30_000 * latency / 850)
    let (accepted, retries) = (lanes.pools.acceptedAt.count, lanes.retries)
    #expect(accepted == 30_000 && retries == 0)
  }

  /// One that is slow goes on as fast as it can, and its jobs are put off a few times each.
  @Test(arguments: Pace.all) func aSlowPoolAloneGoesOn(pace: Pace) {
    let lanes = ScriptedLanes(1, [pace.pool])
    let perSecond = min(pace.streams, 875) * 1_000 / Int(pace.latency)
    let count = perSecond * 60
    for _ in 0..<count { lanes.pools.publish(pool: 0) }
    lanes.play(milliseconds: 75_000)
    let (accepted, copies) = (lanes.pools.acceptedAt.count, Int(lanes.retries))
    #expect(accepted >= count * 95 / 100, "of \(count)")
    #expect(0 < copies && copies <= 16 * count, "\(copies) for \(count)")
    lanes.play(milliseconds: 75_000)
    let all = lanes.pools.acceptedAt.count
    #expect(all == count)
  }
}
