import PushCore
import Testing

/// Transactional jobs beside a saturating bulk load of the same pool: one connection, 50 streams, answers after 100 ms.
@Suite struct ClassShareTests {
  enum Load: CaseIterable {
    case single, batches, pages

    var targets: Int {
      switch self {
      case .single: 1
      case .batches: 1_000
      // An expansion's pages are batches once their devices are known.
      case .pages: 500
      }
    }
  }

  /// The waits of transactional jobs, 27 a second and out of step with the answers, shortest first; and the bulk targets sent meanwhile.
  private func run(
    _ load: Load?, _ pool: ScriptedPool = .answering(afterMilliseconds: 100, streams: 50), restSeconds: Int = 1
  ) -> (waits: [Int64], bulk: Int) {
    let lanes = ScriptedLanes(1, [pool])
    let pools = lanes.pools
    if let load {
      for _ in 0..<15_000 / load.targets { pools.publish(pool: 0, .bulk, targets: load.targets) }
    }
    lanes.play(milliseconds: 2_000)
    var codes: [String] = []
    let before = pools.taken[0]
    for _ in 0..<200 {
      codes.append(pools.publish(pool: 0, .transactional))
      lanes.play(milliseconds: 37)
    }
    lanes.play(milliseconds: Int64(restSeconds) * 1_000)
    return (codes.map { pools.waited($0) ?? .max }.sorted(), pools.taken[0] - before - 200)
  }

  @Test(arguments: Load.allCases) func aTransactionalJobTakesTheNextFreeStream(load: Load) {
    let quiet = run(nil).waits
    let (waits, bulk) = run(load)
    #expect(waits[189] <= quiet[189] + 50, "p95; alone: \(quiet[189]) ms")
    #expect(bulk > 3_400, "and bulk has most of the 4,200 that there is room for")
  }

  /// Streams that become free together are taken together: bulk leaves some free, or the next free one is as far away as an answer.
  @Test(arguments: Load.allCases) func bulkLeavesFreeStreams(load: Load) {
    let pool = ScriptedPool.answeringTogether(everyMilliseconds: 100, streams: 50)
    let quiet = run(nil, pool).waits
    let (waits, bulk) = run(load, pool)
    #expect(waits[189] <= quiet[189] + 10, "p95; alone: \(quiet[189]) ms")
    #expect(bulk > 3_000, "and bulk has most of the 3,700 that there is room for")
  }

  /// APNs takes seconds for an answer: then a pool has few requests, which bulk would have alone.
  @Test(arguments: Load.allCases) func slowPoolSendsTransactionalJobsFirst(load: Load) {
    let pool = ScriptedPool.answering(afterMilliseconds: 2_000, streams: 1_000)
    let quiet = run(nil, pool, restSeconds: 30).waits
    let (waits, bulk) = run(load, pool, restSeconds: 30)
    #expect(waits[189] <= quiet[189] + 50, "p95; alone: \(quiet[189]) ms")
    #expect(bulk > 0)
  }

  /// A flood of transactional jobs leaves bulk a tenth.
  @Test func bulkNeverStops() {
    let lanes = ScriptedLanes(1, [.answering(afterMilliseconds: 100, streams: 50)])
    let pools = lanes.pools
    for _ in 0..<8_000 { pools.publish(pool: 0, .transactional) }
    let bulk = (0..<500).map { _ in pools.publish(pool: 0, .bulk) }
    lanes.play(milliseconds: 10_000)
    let sent = bulk.count { pools.waited($0) != nil }
    #expect(450...500 ~= sent, "a tenth of 4,800")
  }
}
