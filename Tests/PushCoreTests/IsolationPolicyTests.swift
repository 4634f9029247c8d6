import PushCore
import Testing

/// A job's life in unfinished deliveries, a line each.
@Suite struct IsolationPolicyTests {
  private let policy = IsolationPolicy(isolationCount: 3, aloneLimit: 3)

  @Test func aJobThatEndsItsWorkers() {
    // In the queue of its class, with other jobs in flight.
    #expect(policy.decide(.shared, deliveryCount: 0, carriedCount: 0) == .process)
    #expect(policy.decide(.shared, deliveryCount: 1, carriedCount: 0) == .process)
    #expect(policy.decide(.shared, deliveryCount: 2, carriedCount: 0) == .process)
    #expect(policy.decide(.shared, deliveryCount: 3, carriedCount: 0) == .isolate)
    // The copy for the queue of isolated jobs starts without that count: other jobs shared those crashes. The broker counts it from 0.
    #expect(policy.isolatedCount(.shared, deliveryCount: 3, carriedCount: 0) == 0)
    #expect(policy.decide(.isolated, deliveryCount: 0, carriedCount: 0) == .process)
    #expect(policy.decide(.isolated, deliveryCount: 1, carriedCount: 0) == .process)
    #expect(policy.decide(.isolated, deliveryCount: 2, carriedCount: 0) == .process)
    // A copy replaces it before the broker's own limit removes it. That copy carries the count.
    #expect(policy.decide(.isolated, deliveryCount: 3, carriedCount: 0) == .isolate)
    #expect(policy.isolatedCount(.isolated, deliveryCount: 3, carriedCount: 0) == 3)
    #expect(policy.decide(.isolated, deliveryCount: 0, carriedCount: 3) == .fail)
    // A worker that ended before it reported the failure.
    #expect(policy.decide(.isolated, deliveryCount: 2, carriedCount: 3) == .fail)
    #expect(policy.decide(.isolated, deliveryCount: 3, carriedCount: 3) == .isolate)
  }

  /// Isolated again and again because workers died before they acknowledged it: that does not count against the job.
  @Test func aNeighbour() {
    #expect(policy.decide(.shared, deliveryCount: 15, carriedCount: 0) == .isolate)
    #expect(policy.isolatedCount(.shared, deliveryCount: 15, carriedCount: 0) == 0)
    #expect(policy.decide(.isolated, deliveryCount: 0, carriedCount: 0) == .process)
  }

  /// Its device was over its rate in between: the retry copy keeps the count.
  @Test func anIsolatedJobThatWasPostponed() {
    #expect(policy.isolatedCount(.isolated, deliveryCount: 2, carriedCount: 0) == 2)
    #expect(policy.decide(.shared, deliveryCount: 0, carriedCount: 2) == .isolate)
    #expect(policy.isolatedCount(.shared, deliveryCount: 0, carriedCount: 2) == 2)
    #expect(policy.decide(.isolated, deliveryCount: 0, carriedCount: 2) == .process)
    #expect(policy.decide(.isolated, deliveryCount: 1, carriedCount: 2) == .fail)
    // No worker died while the job was isolated: it goes the usual way again.
    #expect(policy.isolatedCount(.isolated, deliveryCount: 0, carriedCount: 0) == 0)
    #expect(policy.decide(.shared, deliveryCount: 0, carriedCount: 0) == .process)
  }

  @Test func headersOfAnybodyDoNotTrap() {
    #expect(policy.decide(.isolated, deliveryCount: 2, carriedCount: .max) == .fail)
    #expect(policy.decide(.isolated, deliveryCount: .max, carriedCount: .max) == .isolate)
    #expect(policy.decide(.shared, deliveryCount: .max, carriedCount: .max) == .isolate)
    #expect(policy.isolatedCount(.isolated, deliveryCount: .max, carriedCount: 1) == .max)
  }

  @Test func theUsualOneStaysBelowWhatTheBrokerAllows() {
    let usual = IsolationPolicy()
    #expect(usual.isolationCount == 3)
    #expect(usual.aloneLimit == 17)
  }
}
