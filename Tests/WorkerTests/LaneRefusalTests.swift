import PushCore
import PushLane
import Testing

/// A lane whose broker refuses publishes.
@Suite struct LaneRefusalTests {
  /// One retry queue is full or broken: its jobs wait in another one, and the lane goes on.
  @Test func aCopyThatIsRefusedAgainAndAgainWaitsInAnotherQueue() {
    let bench = LaneBench(retry: RetryPolicy(delaysSeconds: [1, 5, 30]))
    bench.consume(0..<1)
    bench.turn()
    bench.world.refuses = [.retries]
    bench.world.answer(bench.world.requests[0], status: 503, reason: .serviceUnavailable)
    // One probe at a time, every five seconds at last.
    bench.turn(27_000)
    let delays = bench.world.retryDelays
    #expect(delays.count > 21)
    let rounds = [1, 5, 1, 30, 1].flatMap { Array(repeating: $0, count: RetryPolicy.refusalsMaximum) }
    #expect(Array(delays.prefix(21)) == Array(rounds.prefix(21)), "its own in every other round")
    #expect(bench.jobsInFlight == 1, "nothing is acknowledged before a copy stands for it")
    bench.world.refuses = []
    bench.turn(1_200)
    #expect(bench.jobsInFlight == 0)
    #expect(bench.lane.counters.retries.values.reduce(0, +) == 1, "one copy, however often it was refused")
  }

  /// A queue that gets the results is full: one outcome tries it, and none is lost.
  @Test func oneOutcomeAtATimeTriesWhatRefusesThem() {
    let bench = LaneBench()
    bench.consume(0..<50)
    bench.turn()
    bench.world.refuses = [.results]
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn(2_000)
    // Ten seconds: 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + …
    #expect(50 + 5...50 + 8 ~= bench.world.outcomes.count, "\(bench.world.outcomes.count) outcomes were published")
    #expect(bench.jobsInFlight == 50)
    bench.world.refuses = []
    bench.turn(1_100)
    #expect(bench.jobsInFlight == 0)
    #expect(bench.world.outcomes.count <= 50 + 8 + 50)
    #expect(bench.lane.counters.settled == 50)
  }

  /// Dead letters have nowhere to go: outcomes are told once, and other jobs go on.
  @Test func onlyWhatIsRefusedIsPublishedAgain() {
    let bench = LaneBench(retry: RetryPolicy(delaysSeconds: [1], attemptsMaximum: 1)) { $0.refusedMaximum = 3 }
    bench.consume(0..<3)
    bench.turn()
    bench.world.refuses = [.deadLetters]
    for ticket in bench.world.requests { bench.world.answer(ticket, status: 500, reason: .internalServerError) }
    bench.turn(400)
    #expect(bench.world.outcomes.count == 3 && bench.world.deadLetters.count > 3)
    #expect(bench.jobsInFlight == 3)
    for number in 3..<6 { bench.world.deliver(number) { _ in } }
    bench.turn()
    for ticket in bench.world.requests.suffix(3) { bench.world.answer(ticket) }
    bench.turn(20)
    #expect(bench.world.outcomes.count == 6 && bench.jobsInFlight == 3, "the others are not held up")
    bench.world.refuses = []
    bench.turn(1_200)
    #expect(bench.world.outcomes.count == 6 && bench.jobsInFlight == 0)
  }

  /// One tenant's invalid jobs hold only a share of their class: the broker makes the other dead letters. Each job is told once.
  @Test func deadLettersThatAreRefused_holdAShareOfTheirClass() {
    let bench = LaneBench(prefetch: 160)
    for number in 0..<200 { bench.world.bodies[number] = "{\"x\":\(number)}" }
    bench.world.refuses = [.deadLetters]
    bench.consume(0..<80)
    bench.turn(190)
    #expect(bench.world.leftToBroker.isEmpty && bench.jobsInFlight == 80, "it may be over soon")
    bench.turn(210)
    let left = bench.world.leftToBroker
    #expect(bench.jobsInFlight == 10 && left.count == 70, "\(bench.jobsInFlight) in flight, \(left.count) left")
    #expect(Set(left.map(\.value)).count == 70 && bench.world.outcomes.count == 80 && bench.world.rejected.isEmpty)
    // The class has room, for its invalid jobs too.
    for number in 80..<200 { bench.world.deliver(number) }
    bench.turn(40)
    #expect(bench.jobsInFlight == 10 && bench.world.leftToBroker.count == 190)
    #expect(bench.world.outcomes.count == 200)
    // Those that were held have their dead letters, with their reasons.
    bench.world.refuses = []
    let before = bench.world.deadLetters.count
    bench.turn(2_400)
    #expect(bench.jobsInFlight == 0 && bench.world.deadLetters.count == before + 10 && bench.contradiction == nil)
    #expect(bench.world.outcomes.count == 200 && bench.world.leftToBroker.count == 190)
    let acknowledged = Set(bench.world.acknowledged)
    #expect(acknowledged.isDisjoint(with: bench.world.leftToBroker.map(\.value)), "a settled tag is not named again")
  }

  /// A replay of the job itself would send too much, or unmarked: its own dead letter says more.
  @Test func onlyJobsThatSayAsMuchAreLeftToTheBroker() {
    let bench = LaneBench(prefetch: 16, retry: RetryPolicy(delaysSeconds: [1], attemptsMaximum: 1))
    bench.world.refuses = [.deadLetters]
    bench.world.targetCount = 2
    bench.consume(0..<2)
    bench.turn()
    bench.world.targetCount = 1
    for number in 2..<4 { bench.world.deliver(number) { $0.isAmbiguous = true } }
    for number in 4..<6 { bench.world.deliver(number) { $0.deliveryCount = 1 } }
    for number in 6..<8 { bench.world.deliver(number) }
    bench.turn(100)
    for ticket in bench.world.requests { bench.world.answer(ticket, status: 500, reason: .internalServerError) }
    bench.turn(1_000)
    // Two targets of each batch; an earlier worker may have sent the two that were redelivered, which their messages do not say.
    #expect(Set(bench.world.leftToBroker.map(\.value)) == [3, 4, 7, 8], "\(bench.world.leftToBroker)")
    #expect(bench.jobsInFlight == 4 && bench.world.outcomes.count == 10)
    bench.world.refuses = []
    bench.turn(2_400)
    #expect(bench.jobsInFlight == 0 && bench.world.outcomes.count == 10 && bench.contradiction == nil)
  }

  /// The queue of isolated jobs gives one at a time: none of them waits for its dead letter.
  @Test func isolatedJobWhoseDeadLetterIsRefused_isLeftToTheBroker() {
    let bench = LaneBench(prefetch: 160)
    bench.world.bodies[0] = "{}"
    bench.world.refuses = [.deadLetters]
    bench.consume(0..<0)
    bench.world.deliver(0, isIsolated: true)
    bench.turn(420)
    #expect(bench.world.leftToBroker.map(\.isIsolated) == [true] && bench.world.acknowledged.isEmpty)
    #expect(bench.jobsInFlight == 0 && bench.world.outcomes.count == 1)
  }

  /// A job that would expire there goes into no longer queue.
  @Test func noQueueThatTheJobWouldNotOutlive() {
    let policy = RetryPolicy(delaysSeconds: [1, 5, 30], ageMaximumSeconds: 20)
    let now = Now(monotonic: Instant(nanoseconds: 0), unixMilliseconds: 1_800_000_000_000)
    let times = JobTimes(enqueuedAt: now.unixMilliseconds, expiration: nil)
    let queues = [0, 4, 5, 9, 10, 15, 25].map { policy.queue(1, refusals: $0, times, now: now) }
    #expect(queues == [1, 1, 5, 5, 1, 5, 5])
    #expect(policy.queue(5, refusals: 5, times, now: now) == 1, "a shorter one, where no longer one will do")
    #expect(policy.queue(7, refusals: 5, times, now: now) == 7, "a delay of another configuration")
  }
}
