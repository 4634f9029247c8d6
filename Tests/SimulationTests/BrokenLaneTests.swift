import LaneSimulation
import PushCore
import PushWorker
import Testing

/// Lanes that break the promise on purpose: the auditor must catch each, or its silence elsewhere means nothing.
@Suite struct BrokenLaneTests {
  private func violations(_ fault: BrokenBroker.Fault, seed: UInt64) -> [String] {
    var run = SimulatedRun(seed: seed, faults: .many) { BrokenBroker(SimulatedBroker(world: $0), fault) }
    run.play()
    return run.world.auditor.violations
  }

  @Test func anOutcomeTakenForConfirmedTooEarlyIsCaught() {
    #expect(violations(.confirmsOutcomesUnpublished, seed: 1).contains { $0.hasPrefix("acknowledged before") })
  }

  @Test func aRetryWithoutItsCopyIsCaught() {
    #expect(violations(.confirmsRetriesUnpublished, seed: 2).contains { $0.hasPrefix("lost") })
  }

  @Test func anOutcomeToldTwiceIsCaught() {
    var run = SimulatedRun(seed: 3, faults: Faults()) {
      BrokenBroker(SimulatedBroker(world: $0), .publishesOutcomesTwice)
    }
    run.play()
    #expect(run.world.auditor.violations.contains { $0.contains("outcomes, 1 explained") })
  }

  @Test func aTagOfAnOldChannelIsCaught() {
    #expect(violations(.acknowledgesOldTags, seed: 4).contains { $0.hasPrefix("acknowledged a tag of an old channel") })
  }

  @Test func aRepetitionThatIsNotMarkedIsCaught() {
    let seeds: ClosedRange<UInt64> = 1...10
    #expect(seeds.contains { violations(.hidesRedeliveries, seed: $0).contains { $0.hasSuffix("no outcome says so") } })
  }

  @Test func aCopyThatCameTwiceUnnoticedIsCaught() {
    var run = SimulatedRun(seed: 5, faults: SimulationTests.copiesTwice) {
      BrokenBroker(SimulatedBroker(world: $0), .forgetsCopies)
    }
    run.play()
    #expect(run.world.auditor.violations.contains { $0.hasSuffix("no outcome says so") })
  }

  @Test func aDeadLetterThatForgetsWhatIsNotKnownIsCaught() {
    let seeds: ClosedRange<UInt64> = 1...10
    let isCaught = seeds.contains { seed in
      var run = SimulatedRun(seed: seed, faults: ReplayTests.faults, jobs: 40, retry: ReplayTests.retry) {
        BrokenBroker(SimulatedBroker(world: $0), .unmarksDeadLetters)
      }
      run.play(replaysDeadLetters: true)
      return run.world.auditor.violations.contains { $0.hasSuffix("no outcome says so") }
    }
    #expect(isCaught)
  }
}

/// A broker that makes its lane break one rule, as a mistake in the lane would.
struct BrokenBroker: SimulatedBrokerPort {
  enum Fault {
    case confirmsOutcomesUnpublished, confirmsRetriesUnpublished, publishesOutcomesTwice, acknowledgesOldTags
    case hidesRedeliveries, forgetsCopies, unmarksDeadLetters
  }

  private var inner: SimulatedBroker
  private let fault: Fault
  /// Sequence numbers that no broker has seen, told as confirmed at once; far above the real ones.
  private var invented: [UInt64] = []
  private var nextInvented: UInt64 = 0
  private var lastTag: DeliveryTag?

  init(_ inner: SimulatedBroker, _ fault: Fault) {
    self.inner = inner
    self.fault = fault
  }

  var canPublish: Bool { inner.canPublish }

  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if fault == .forgetsCopies { inner.world.memory.claimed = [:] }
    if !invented.isEmpty { return .confirmed(sequence: invented.removeFirst(), isMultiple: false) }
    let event = inner.nextEvent(takesDeliveries: takesDeliveries)
    if fault == .acknowledgesOldTags, case .consuming = event, let lastTag {
      inner.acknowledge(upTo: lastTag)
    }
    if case .delivery(let delivery) = event { lastTag = delivery.tag }
    return event
  }

  private mutating func invent() -> UInt64 {
    nextInvented = max(nextInvented, inner.lastSequence) + 1
    inner.lastSequence = nextInvented
    invented.append(nextInvented)
    return nextInvented
  }

  mutating func copyDelivery(into job: inout PushJob, metadata: inout MessageMetadata) {
    inner.copyDelivery(into: &job, metadata: &metadata)
    if fault == .hidesRedeliveries { metadata.deliveryCount = 0 }
    if fault == .forgetsCopies { metadata.claim = 0 }
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    switch fault {
    case .confirmsOutcomesUnpublished:
      return invent()
    case .publishesOutcomesTwice:
      _ = inner.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
    case .confirmsRetriesUnpublished, .acknowledgesOldTags, .hidesRedeliveries, .forgetsCopies, .unmarksDeadLetters:
      break
    }
    return inner.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    if fault == .confirmsRetriesUnpublished { return invent() }
    return inner.publishRetry(body, jobClass: jobClass, delaySeconds: delaySeconds, state: state, metadata: metadata)
  }

  mutating func publishIsolated(
    _ body: [UInt8], jobClass: JobClass, firstSeen: Int64, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    inner.publishIsolated(body, jobClass: jobClass, firstSeen: firstSeen, metadata: metadata)
  }

  mutating func publishDeadLetter(
    _ body: [UInt8], jobClass: JobClass, reason: StaticString, detail: String, apnsID: UUIDValue?,
    metadata: borrowing MessageMetadata
  ) -> UInt64 {
    var carried = copy metadata
    if fault == .unmarksDeadLetters { carried.isAmbiguous = false }
    return inner.publishDeadLetter(
      body, jobClass: jobClass, reason: reason, detail: detail, apnsID: apnsID, metadata: carried)
  }

  mutating func acknowledge(upTo tag: DeliveryTag) { inner.acknowledge(upTo: tag) }
  mutating func acknowledge(alone tag: DeliveryTag) { inner.acknowledge(alone: tag) }
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) { inner.reject(tag, requeue: requeue) }
  mutating func stopConsuming() { inner.stopConsuming() }
  mutating func step() { inner.step() }
  mutating func die() { inner.die() }
}
