import PushCore
import PushLane
import PushSettings
import Testing

/// How many bytes of bodies a lane holds, and whom large ones do not hold up.
@Suite struct LaneBytesTests {
  private static let kibibyte = 1_024

  /// Ten deliveries of each class; a class may hold 16 KiB in bodies above 1.6 KiB, and the lane 64 KiB.
  private func bench(retry: RetryPolicy = RetryPolicy()) -> LaneBench {
    let bench = LaneBench(prefetch: 20, retry: retry) { $0.bodyBytesMaximum = 64 * Self.kibibyte }
    bench.consume(0..<0)
    bench.turn()
    return bench
  }

  /// A job of about 4 KiB from 100 on, a small one below.
  private func deliver(_ numbers: Range<Int>, _ jobClass: JobClass, _ bench: LaneBench) {
    for number in numbers {
      if number >= 100 {
        let token = "aa" + Hex.text(number, count: 14)
        bench.world.bodies[number] = """
          {"version":1,"id":"job-\(number)","app":"com.example.app","push_type":"alert","to":{"token":"\(token)"},\
          "payload":{"aps":{"alert":"\(String(repeating: "x", count: 4_000))"}}}
          """
      }
      bench.world.deliver(number, jobClass: jobClass)
    }
  }

  @Test func largeBodiesBeyondTheirClasssShare_waitInARetryQueue() {
    let bench = bench()
    deliver(100..<110, .bulk, bench)
    deliver(0..<5, .bulk, bench)
    deliver(110..<112, .transactional, bench)
    bench.turn()
    #expect(bench.world.retryBodies.count == 7 && bench.world.retryDelays.allSatisfy { $0 == 1 })
    #expect(bench.world.retryBodies.allSatisfy { $0.utf8.count > 4_000 && $0.contains("\"job-10") })
    #expect(bench.world.retries.allSatisfy { $0.attempts == 0 }, "it counts as no attempt")
    #expect(bench.world.requests.count == 3 + 5 + 2, "the first ones, all small ones, the other class's")
    #expect(bench.world.rejected.isEmpty && bench.world.ready.isEmpty)
    #expect(bench.bodyBytesInFlight < 24 * Self.kibibyte && bench.contradiction == nil)
    // Once they have their answers there is room again.
    for request in bench.world.requests { bench.world.answer(request) }
    bench.turn(20)
    #expect(bench.jobsInFlight == 0 && bench.bodyBytesInFlight == 0 && bench.world.outcomes.count == 10)
    deliver(120..<123, .bulk, bench)
    bench.turn()
    #expect(bench.world.retryBodies.count == 7 && bench.world.requests.count == 13)
  }

  /// The older a job is, the longer it waits: it does not go round and round.
  @Test func anOldLargeJob_comesBackLessOften() {
    let bench = bench()
    deliver(100..<103, .bulk, bench)
    bench.turn()
    for number in 103..<143 {
      deliver(number..<number + 1, .bulk, bench)
      bench.world.ready[bench.world.ready.count - 1].metadata.firstSeen = bench.world.milliseconds - 200_000
    }
    bench.turn()
    #expect(bench.world.retryDelays.count == 40 && Set(bench.world.retryDelays) == [30, 120])
  }

  /// RabbitMQ takes no copies: no more deliveries are taken, of neither class, until it does.
  @Test func atTheBound_noDeliveryIsTaken() {
    let bench = bench()
    bench.world.confirmsPublishes = false
    deliver(100..<140, .bulk, bench)
    deliver(0..<3, .transactional, bench)
    bench.turn(20)
    #expect(64 * Self.kibibyte..<69 * Self.kibibyte ~= bench.bodyBytesInFlight, "\(bench.bodyBytesInFlight)")
    let left = bench.world.ready.count
    #expect(left == 43 - bench.jobsInFlight && left > 20)
    #expect(bench.world.rejected.isEmpty && bench.contradiction == nil)
    // Nothing wakes it meanwhile.
    #expect(bench.idleMilliseconds > 0)
    bench.world.confirmsPublishes = true
    bench.world.events.append(.confirmed(1...bench.world.sequence))
    bench.turn(20)
    #expect(bench.world.ready.isEmpty && bench.world.requests.count == 3 + 3)
    #expect(bench.world.retryBodies.count == 37 && bench.contradiction == nil)
  }

  /// What the broker will deliver again holds nothing here.
  @Test func aLostConsumersBodies_countNoLonger() {
    let bench = bench()
    deliver(100..<103, .bulk, bench)
    bench.turn()
    #expect(bench.bodyBytesInFlight > 12 * Self.kibibyte)
    bench.world.loseConsumer()
    bench.turn()
    #expect(bench.bodyBytesInFlight == 0 && bench.contradiction == nil)
  }

  /// A usual job is never put off for its bytes, however many a whole prefetch has.
  @Test(arguments: [2, 100, 2_000, 65_535]) func smallBodiesOfAWholePrefetchFit(prefetch: Int) {
    let settings = LaneSettings(
      workerName: "w/0", prefetch: prefetch, retry: RetryPolicy(), onLimit: .delay, drainTimeoutMilliseconds: 1,
      randomSeed: 1)
    #expect(settings.bodyBytesMaximum == 64 << 20)
    #expect(settings.smallBodyBytes * settings.deliveriesMaximum <= settings.largeBytesMaximum)
    #expect(4 * settings.largeBytesMaximum <= settings.bodyBytesMaximum)
    #expect(prefetch > 2_000 || settings.smallBodyBytes >= 16 * Self.kibibyte)
  }
}
