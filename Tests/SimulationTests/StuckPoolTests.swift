import Foundation
import PushCore
import PushLane
import Testing

/// Jobs for a pool that does not answer, in front of others: the others have their outcome within 2 s and 0.2 ms for each of them.
@Suite struct StuckPoolTests {
  enum Trouble: CaseIterable {
    case silent, slow, refusing, unreachable

    var pool: ScriptedPool {
      switch self {
      case .silent: .silent
      case .slow: .answering(afterMilliseconds: 9_000, streams: 4_000)
      case .refusing: .refusing
      case .unreachable: .unreachable
      }
    }
  }

  private static let healthy = ScriptedPool.answering(afterMilliseconds: 20, streams: 1_000)

  private func limit(_ count: Int) -> Int64 { 2_000 + Int64(count) / 5 }

  @Test(arguments: Trouble.allCases, [1, 2])
  func theOthersGoOn(trouble: Trouble, lanes: Int) {
    let lanes = ScriptedLanes(lanes, [trouble.pool, Self.healthy])
    let pools = lanes.pools
    let count = 12_000
    for _ in 0..<count { pools.publish(pool: 0) }
    var others = (0..<100).map { _ in pools.publish(pool: 1) }
    lanes.play(milliseconds: limit(count))
    #expect(others.count { pools.waited($0) == nil } == 0, "without an answer after \(limit(count)) ms")
    // What was put off comes back, again and again.
    for _ in 0..<40 {
      others.append(pools.publish(pool: 1))
      lanes.play(milliseconds: 500)
    }
    lanes.play(milliseconds: limit(count))
    let longest = others.map { pools.waited($0) ?? .max }.max() ?? .max
    #expect(longest <= limit(count))
    let contradiction = lanes.contradiction
    #expect(contradiction == nil)
  }

  /// APNs answers all, just before it counts as stuck, and so keeps all that a lane can have on the wire. Others were in use before.
  @Test(arguments: [300, 500, 1_000, 1_400], [1, 2])
  func theOthersGoOn_besideOneThatAnswersLate(latency: Int64, lanes: Int) {
    let lanes = ScriptedLanes(lanes, [.answering(afterMilliseconds: latency, streams: 4_000), Self.healthy])
    let pools = lanes.pools
    for jobClass in JobClass.allCases {
      var others: [String] = []
      for _ in 0..<20 {
        for _ in 0..<4 { others.append(pools.publish(pool: 1, jobClass)) }
        pools.publish(pool: 0, jobClass)
        lanes.play(milliseconds: 200)
      }
      let count = 12_000
      let backlog = (0..<count).map { _ in pools.publish(pool: 0, jobClass) }
      for _ in 0..<200 {
        others.append(pools.publish(pool: 1, jobClass))
        lanes.play(milliseconds: 50)
      }
      lanes.play(milliseconds: limit(count))
      let longest = others.map { pools.waited($0) ?? .max }.max() ?? .max
      #expect(longest <= limit(count), "\(jobClass)")
      // The late one goes on, too: without the others it would take this long.
      lanes.play(milliseconds: Int64(count) * latency / 875 * 5 / 4)
      let left = backlog.count { pools.waited($0) == nil }
      #expect(left == 0, "\(jobClass)")
    }
  }

  /// Of a prefetch of 64, a class has 32. Fewer deliveries can be put off at once, and fewer still beside what is on the wire of a pool that
  /// was busy.
  @Test(arguments: Trouble.allCases, [64, 200, 400])
  func alsoWithASmallPrefetch(trouble: Trouble, prefetch: Int) {
    for count in [2 * prefetch, 2_000] {
      for wasBusy in [false, true] {
        let first: ScriptedPool = wasBusy ? .answering(afterMilliseconds: 100, streams: 4_000) : trouble.pool
        let lanes = ScriptedLanes(1, prefetch: prefetch, [first, Self.healthy])
        let pools = lanes.pools
        if wasBusy {
          lanes.play(milliseconds: 3_000) {
            for _ in 0..<4 { pools.publish(pool: 0) }
          }
        }
        pools.pools[0] = trouble.pool
        for _ in 0..<count { pools.publish(pool: 0) }
        var others = (0..<100).map { _ in pools.publish(pool: 1) }
        for _ in 0..<40 {
          others.append(pools.publish(pool: 1))
          lanes.play(milliseconds: 500)
        }
        lanes.play(milliseconds: 20_000)
        let longest = others.map { pools.waited($0) ?? .max }.max() ?? .max
        let limit = 2_000 + Int64(max(count / 5, count * 80 / prefetch)) + (wasBusy ? 4_000 : 0)
        #expect(longest <= limit, "\(count), busy before: \(wasBusy)")
      }
    }
  }

  /// Without the rule they wait for as long as APNs may take.
  @Test func withoutTheRuleTheyWait() {
    let lanes = ScriptedLanes(1, [.silent, Self.healthy]) { settings in
      settings.share.stuckLooks = .max
      settings.share.start = settings.share.maximum
      settings.jobsSentMaximum = settings.prefetch
    }
    for _ in 0..<12_000 { lanes.pools.publish(pool: 0) }
    let others = (0..<100).map { _ in lanes.pools.publish(pool: 1) }
    lanes.play(milliseconds: 60_000)
    #expect(others.count { lanes.pools.waited($0) == nil } == 100, "after a minute")
  }

  /// It had answered all along, with all that a lane can have on the wire.
  @Test(arguments: Trouble.allCases) func alsoWhereThePoolWasBusyBefore(trouble: Trouble) {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: 100, streams: 4_000), Self.healthy])
    let pools = lanes.pools
    lanes.play(milliseconds: 3_000) {
      for _ in 0..<40 { pools.publish(pool: 0) }
    }
    pools.pools[0] = trouble.pool
    for _ in 0..<12_000 { pools.publish(pool: 0) }
    let others = (0..<100).map { _ in pools.publish(pool: 1) }
    lanes.play(milliseconds: limit(12_000))
    #expect(others.count { pools.waited($0) == nil } == 0)
  }

  /// A few jobs of one class wait as the pool's probes; those of the other wait behind them, in front of others of their class. Nobody else
  /// has jobs of the first class.
  @Test(arguments: Trouble.allCases, JobClass.allCases)
  func alsoBehindAFewOfTheOtherClass(trouble: Trouble, few: JobClass) {
    let many: JobClass = few == .bulk ? .transactional : .bulk
    for (fewCount, wasBusy) in [(4, false), (20, false), (4, true), (20, true)] {
      let first: ScriptedPool = wasBusy ? .answering(afterMilliseconds: 100, streams: 4_000) : trouble.pool
      let lanes = ScriptedLanes(1, prefetch: 400, [first, Self.healthy])
      let pools = lanes.pools
      if wasBusy {
        lanes.play(milliseconds: 3_000) {
          for _ in 0..<4 { pools.publish(pool: 0, many) }
        }
      }
      pools.pools[0] = trouble.pool
      for _ in 0..<800 { pools.publish(pool: 0, many) }
      lanes.play(milliseconds: 100)
      for _ in 0..<fewCount { pools.publish(pool: 0, few) }
      var others: [String] = []
      for _ in 0..<40 {
        others.append(pools.publish(pool: 1, many))
        lanes.play(milliseconds: 500)
      }
      lanes.play(milliseconds: 20_000)
      let longest = others.map { pools.waited($0) ?? .max }.max() ?? .max
      #expect(longest <= limit(800) + (wasBusy ? 4_000 : 0), "\(fewCount), busy before: \(wasBusy)")
      let contradiction = lanes.contradiction
      #expect(contradiction == nil)
    }
  }

  /// Batches and both classes.
  @Test(arguments: Trouble.allCases) func alsoBesideBatches(trouble: Trouble) {
    let lanes = ScriptedLanes(1, [trouble.pool, Self.healthy])
    let pools = lanes.pools
    for number in 0..<1_200 { pools.publish(pool: 0, number % 2 == 0 ? .bulk : .transactional, targets: 100) }
    let others = (0..<100).map { pools.publish(pool: 1, $0 % 2 == 0 ? .bulk : .transactional) }
    lanes.play(milliseconds: limit(12_000))
    #expect(others.count { pools.waited($0) == nil } == 0)
  }

  /// As many at once as the lane has, from its first second on; nothing is put off.
  @Test func aHealthyPoolHasNoLimit() {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: 100, streams: 4_000)])
    let pools = lanes.pools
    for _ in 0..<20_000 { pools.publish(pool: 0) }
    lanes.play(milliseconds: 4_000)
    let (accepted, retries, peak) = (pools.acceptedAt.count, lanes.retries, pools.peak[0])
    #expect(retries == 0)
    #expect(peak >= 850, "of 1,000 that the broker delivers")
    #expect(accepted == 20_000)
  }

  /// APNs that is full, not stuck: 500 a second. What would wait for more than a second is put off.
  @Test func aFullPoolIsNotStuck() {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: 100, streams: 50)])
    let pools = lanes.pools
    for _ in 0..<3_000 { pools.publish(pool: 0) }
    lanes.play(milliseconds: 7_000)
    let (accepted, retries) = (pools.acceptedAt.count, lanes.retries)
    #expect(accepted == 3_000 && 0 < retries && retries < 12_000)
  }

  private struct Ended: Decodable {
    var jobID: String
    var outcome: String
    var attempts: Int

    private enum CodingKeys: String, CodingKey {
      case jobID = "job_id"
      case outcome, attempts
    }
  }

  /// What comes above a pool's share is put off again and again. Only what was sent is an attempt.
  @Test(arguments: Trouble.allCases) func whatIsPutOffIsNoAttempt(trouble: Trouble) throws {
    let lanes = ScriptedLanes(1, [trouble.pool])
    let pools = lanes.pools
    let count = 3_000
    for _ in 0..<count { pools.publish(pool: 0, endsInSeconds: 90) }
    lanes.play(milliseconds: 110_000)
    let ends = try pools.queues.outcomes.map { try JSONDecoder().decode(Ended.self, from: Data($0)) }
    #expect(ends.count == count && Set(ends.map(\.jobID)).count == count)
    let wrong = ends.filter { $0.attempts != pools.requests[$0.jobID] ?? 0 }
    #expect(wrong.isEmpty, "\(wrong.count): \(wrong.prefix(3))")
    let unsent = ends.filter { pools.requests[$0.jobID] == nil }
    #expect(unsent.allSatisfy { $0.attempts == 0 && $0.outcome == "expired" })
    #expect(lanes.retries > 2 * count, "they were put off again and again")
    // A pool that answers, however late or badly, gets all of them in time.
    let isMute = trouble == .silent || trouble == .unreachable
    #expect(isMute ? unsent.count > count / 2 : unsent.isEmpty, "\(unsent.count) were never sent")
  }

  /// All that it had on the wire times out, and its connections are replaced. Others may not wait for as much again.
  @Test func replacedConnectionsStartAtTheProbes() {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: 100, streams: 4_000)])
    let pools = lanes.pools
    lanes.play(milliseconds: 3_000) {
      for _ in 0..<40 { pools.publish(pool: 0) }
    }
    pools.pools[0] = .silent
    let busy = pools.taken[0]
    for _ in 0..<3_000 { pools.publish(pool: 0) }
    lanes.play(milliseconds: ScriptedPool.timeoutMilliseconds)
    #expect(pools.taken[0] - busy > 500, "it was busy")
    let before = pools.taken[0]
    lanes.play(milliseconds: 3 * ScriptedPool.timeoutMilliseconds)
    let probes = pools.taken[0] - before
    #expect((8...32).contains(probes), "\(probes) in the time of three timeouts")
  }

  @Test(arguments: Trouble.allCases) func aPoolThatRecoversIsSoonAtFullSpeed(trouble: Trouble) {
    let lanes = ScriptedLanes(1, [trouble.pool])
    let pools = lanes.pools
    func publish(_ count: Int) { for _ in 0..<count { pools.publish(pool: 0) } }
    lanes.play(milliseconds: 20_000) { publish(2) }
    pools.pools[0] = .answering(afterMilliseconds: 100, streams: 4_000)
    // The requests that it had end.
    if trouble == .silent || trouble == .slow {
      lanes.play(milliseconds: ScriptedPool.timeoutMilliseconds) { publish(2) }
    }
    // More than it takes, for two seconds.
    lanes.play(milliseconds: 2_000) { publish(60) }
    let before = pools.taken[0]
    lanes.play(milliseconds: 1_000) { publish(60) }
    #expect(pools.taken[0] - before > 8_000, "in a second; it would take 8,750")
  }
}
