import PushCore
import Testing

/// A channel request's life in unfinished deliveries, a line each.
@Suite struct ChannelIsolationTests {
  private func judge(
    _ origin: IsolationPolicy.Origin, _ deliveryCount: UInt32, carried: UInt32
  ) -> (decision: ChannelIsolation.Decision, carried: UInt32) {
    let isolation = ChannelIsolation(
      origin, deliveryCount: deliveryCount, carriedCount: carried,
      policy: IsolationPolicy(isolationCount: 3, aloneLimit: 3))
    return (isolation.decision, isolation.carriedCount)
  }

  @Test func aRequestThatEndsItsWorkers() {
    // Beside others.
    #expect(judge(.shared, 0, carried: 0) == (.process, 0))
    #expect(judge(.shared, 2, carried: 0) == (.process, 0))
    #expect(judge(.shared, 3, carried: 0) == (.isolate, 0))
    // Isolated once; then it waits, comes back to the usual queue, and is isolated again when it comes.
    #expect(judge(.isolated, 0, carried: 0) == (.process, 0))
    #expect(judge(.isolated, 1, carried: 0) == (.postpone(seconds: 1), 1))
    #expect(judge(.shared, 0, carried: 1) == (.isolate, 1))
    #expect(judge(.isolated, 0, carried: 1) == (.process, 1))
    #expect(judge(.isolated, 1, carried: 1) == (.postpone(seconds: 2), 2))
    #expect(judge(.shared, 0, carried: 2) == (.isolate, 2))
    #expect(judge(.isolated, 0, carried: 2) == (.process, 2))
    #expect(judge(.isolated, 1, carried: 2) == (.fail, 3))
    // A worker that ended before it reported the failure, any number of times.
    #expect(judge(.isolated, 2, carried: 2) == (.fail, 4))
    #expect(judge(.isolated, 4, carried: 2) == (.fail, 6))
  }

  @Test func whatOthersDidIsNotCounted() {
    #expect(judge(.shared, 19, carried: 0) == (.isolate, 0))
    #expect(judge(.shared, 19, carried: 2) == (.isolate, 2))
  }

  @Test func headersOfAnybodyDoNotTrap() {
    #expect(judge(.isolated, .max, carried: .max) == (.fail, .max))
    #expect(judge(.shared, .max, carried: .max) == (.isolate, .max))
  }
}
