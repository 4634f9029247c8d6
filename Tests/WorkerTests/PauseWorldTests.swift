import APNsSimulator
import PushCore
import PushLane
import Testing

/// What a refusal pauses, seen from outside: a lane, a strict APNs, jobs of two apps and two classes.
@Suite(.timeLimit(.minutes(3))) struct PauseWorldTests {
  private let one = LaneWorld.apps[0]
  private let two = LaneWorld.apps[1]

  private func token(_ prefix: String, _ number: Int) -> String {
    prefix + Hex.text(number, count: 28)
  }

  /// Retries and outcomes of the jobs with this id prefix.
  private func book(_ world: LaneWorld, _ prefix: String) -> (retried: Int, outcomes: [String: Int]) {
    let broker = world.lane.broker
    let outcomes = broker.outcomes.values.filter { $0.jobID.hasPrefix(prefix) }
    return (
      broker.retries.keys.count { $0.hasPrefix(prefix) },
      Dictionary(outcomes.map { ($0.outcome, 1) }, uniquingKeysWith: +)
    )
  }

  @Test func aMixedCampaignHoldsUpNobodyAndIsWarnedOfOnce() throws {
    let world = try LaneWorld(prefetch: 20)
    try world.simulator.add(fault: "prefix=bf00,status=400,reason=BadDeviceToken")
    for number in 0..<1000 {
      world.enqueue(
        "campaign-\(number)", app: one, .bulk, token: token(number % 5 < 3 ? "bf00" : "00fc", number))
    }
    // The other app's jobs come while the campaign goes on.
    for number in 0..<50 {
      let isUnderWay = world.run { $0.lane.broker.outcomes.count >= number * 20 }
      #expect(isUnderWay)
      world.enqueue("code-\(number)", app: two, .transactional, token: token("00aa", number))
    }
    #expect(world.finish(1050))
    let campaign = book(world, "campaign-")
    let codes = book(world, "code-")
    #expect(codes.retried == 0, "jobs of the other app that had to wait")
    #expect(codes.outcomes == ["accepted": 50])
    #expect(campaign.retried == 0, "jobs of the campaign that had to wait")
    #expect(campaign.outcomes == ["accepted": 400, "rejected": 600])
    #expect(world.notices.count { $0.contains("BadDeviceToken") } == 1, "\(world.notices)")
    #expect(world.lane.push.counters.pauses == 0)
    #expect(world.lane.push.counters.badDeviceTokenWarnings == 1)
  }

  /// The broker distributes jobs in turn, so one lane may get all good tokens of a mixed campaign.
  @Test(arguments: [true, false])
  func whatAnotherLaneOfTheWorkerHadAcceptedPausesNothing(areOfOneWorker: Bool) throws {
    let acceptances = AcceptanceTimes()
    let good = try LaneWorld(prefetch: 20, acceptances: areOfOneWorker ? acceptances : AcceptanceTimes())
    let bad = try LaneWorld(prefetch: 20, acceptances: acceptances)
    try bad.simulator.add(fault: "prefix=bf00,status=400,reason=BadDeviceToken")
    for round in 0..<16 {
      good.enqueue("good-\(round)", app: one, .bulk, token: token("00fc", round))
      #expect(good.run { $0.lane.broker.outcomes.count == round + 1 })
      for number in 0..<40 {
        bad.enqueue("bad-\(round)-\(number)", app: one, .bulk, token: token("bf00", round * 40 + number))
      }
      #expect(bad.run { $0.lane.broker.outcomes.count + $0.lane.broker.retries.count >= round * 40 + 40 })
      for world in [good, bad] { world.clock.aheadMilliseconds += 200 }
    }
    #expect(bad.lane.push.counters.pauses == (areOfOneWorker ? 0 : 1))
    #expect(bad.lane.broker.retries.isEmpty == areOfOneWorker)
  }

  /// An app that sends to another's topic with bad tokens pauses itself there, and not the topic's own app.
  @Test func whatAnotherAppSendsToATopicPausesNothingOfItsOwnApp() throws {
    let world = try LaneWorld(prefetch: 20)
    try world.simulator.add(fault: "prefix=bf00,status=400,reason=BadDeviceToken")
    for number in 0..<700 {
      world.enqueue("foreign-\(number)", app: two, topic: one, .transactional, token: token("bf00", number))
    }
    #expect(world.run { $0.lane.push.counters.pauses == 1 })
    for number in 0..<50 { world.enqueue("code-\(number)", app: one, .transactional, token: token("00fc", number)) }
    #expect(world.run { $0.lane.broker.outcomes.count { $0.key.hasPrefix("code-") } == 50 })
    let codes = book(world, "code-")
    #expect(codes.retried == 0, "jobs of the topic's own app that had to wait")
    #expect(codes.outcomes == ["accepted": 50])
    #expect(book(world, "foreign-").retried > 0)
  }

  @Test func tokensOfTheOtherEnvironmentHoldUpTheirTopicAndClassAlone() throws {
    let world = try LaneWorld(prefetch: 20)
    try world.simulator.add(fault: "prefix=bf00,status=400,reason=BadDeviceToken")
    for number in 0..<600 {
      world.enqueue("campaign-\(number)", app: one, .bulk, token: token("bf00", number))
      guard number < 300 else { continue }
      world.enqueue("code-\(number)", app: one, .transactional, token: token("00fc", number))
      world.enqueue("news-\(number)", app: two, .bulk, token: token("00aa", number))
    }
    #expect(world.run { $0.lane.broker.outcomes.count { $0.key.hasPrefix("campaign-") } >= 200 })
    #expect(
      world.run {
        $0.lane.broker.outcomes.count { !$0.key.hasPrefix("campaign-") } == 600
          && $0.lane.broker.retries.keys.count { $0.hasPrefix("campaign-") } > 100
      })
    world.simulator.removeAllFaults()
    #expect(world.finish(1200))
    for others in ["code-", "news-"] {
      #expect(book(world, others).retried == 0, "\(others) jobs that had to wait")
      #expect(book(world, others).outcomes == ["accepted": 300])
    }
    let campaign = book(world, "campaign-")
    let rejected = campaign.outcomes["rejected"] ?? 0
    #expect(rejected >= 200 && rejected < 250, "200 in a row, what was under way, a probe or two: \(campaign)")
    #expect(campaign.outcomes["accepted"] == 600 - rejected)
    #expect(world.notices.count { $0.contains("BadDeviceToken") } == 1, "\(world.notices)")
  }

  @Test func tooManyTokenUpdatesHoldTheCredentialAndCostNoAttempts() throws {
    let world = try LaneWorld(prefetch: 20)
    try world.simulator.add(fault: "status=429,reason=TooManyProviderTokenUpdates")
    for number in 0..<30 { world.enqueue("first-\(number)", app: one, .bulk, token: token("00fc", number)) }
    world.enqueue("short", app: two, .transactional, token: token("00aa", 1), expiresInSeconds: 600)
    #expect(world.run { $0.lane.broker.retries.count >= 20 })
    for number in 0..<30 { world.enqueue("later-\(number)", app: two, .transactional, token: token("00bb", number)) }
    // The tokens are refused for 1,000 s.
    #expect(world.run { $0.clock.aheadMilliseconds >= 1_000_000 || $0.lane.broker.outcomes.count == 61 })
    let refused = world.simulator.readLedger { $0.requests }
    world.simulator.removeAllFaults()
    #expect(world.finish(61))
    #expect(book(world, "first-").outcomes == ["accepted": 30])
    #expect(book(world, "later-").outcomes == ["accepted": 30])
    #expect(world.lane.broker.outcomes.values.allSatisfy { $0.attempts <= 1 })
    #expect(world.lane.broker.outcomes["short"]?.outcome == "expired")
    #expect(refused <= 45, "requests that APNs refused")
    // At first, and for the probes after 15, 45, 105, 225, 465 and 945 s.
    #expect((2...7).contains(world.notices.count { $0.contains("renewed too often") }), "\(world.notices)")
    #expect(world.lane.broker.reportedTwice == [])
  }

  @Test func theFirstRetryWaitsInTheFirstQueue() throws {
    let world = try LaneWorld(prefetch: 60, retry: RetryPolicy(delaysSeconds: [1, 600], attemptsMaximum: 2))
    try world.simulator.add(fault: "attempts=1,status=500,reason=InternalServerError")
    for number in 0..<60 { world.enqueue("job-\(number)", app: one, .bulk, token: token("00fc", number)) }
    #expect(world.finish(60))
    let delays = Dictionary(world.lane.broker.retries.values.map { ($0, 1) }, uniquingKeysWith: +)
    #expect(delays == [[1]: 60])
    #expect(book(world, "job-").outcomes == ["accepted": 60])
  }
}
