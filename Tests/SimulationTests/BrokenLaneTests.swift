import LaneSimulation
import PushCore
import PushLane
import Testing

/// Lanes that break the promise on purpose: the auditor must catch each, or its silence elsewhere proves nothing.
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

  @Test func anOutcomePublishedTwiceIsCaught() {
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
    #expect(
      seeds.contains { violations(.hidesRedeliveries, seed: $0).contains { $0.contains("but without an outcome") } })
  }

  @Test func aCopyThatCameTwiceUnnoticedIsCaught() {
    var settings = WorldSettings()
    settings.mistake = .forgetsClaims
    var run = SimulatedRun(seed: 5, faults: SimulationTests.copiesTwice, settings: settings) {
      SimulatedBroker(world: $0)
    }
    run.play()
    #expect(run.world.auditor.violations.contains { $0.contains("but without an outcome") })
  }

  @Test func aDeadLetterThatForgetsWhatIsNotKnownIsCaught() {
    let seeds: ClosedRange<UInt64> = 1...10
    let isCaught = seeds.contains { seed in
      var run = SimulatedRun(seed: seed, faults: ReplayTests.faults, settings: ReplayTests.settings) {
        BrokenBroker(SimulatedBroker(world: $0), .unmarksDeadLetters)
      }
      run.play(replaysDeadLetters: true)
      return run.world.auditor.violations.contains { $0.contains("but without an outcome") }
    }
    #expect(isCaught)
  }
}

/// Mistakes that were made once: the hard worlds must catch each.
@Suite struct BrokenWorldTests {
  /// Whether the auditor catches it in one of some seeds: a change elsewhere draws other worlds.
  private func isCaught(
    in world: HardWorld, mistake: Mistake? = nil, fault: BrokenBroker.Fault? = nil, _ saying: (String) -> Bool
  ) -> Bool {
    (1...40 as ClosedRange<UInt64>).contains { seed in
      var settings = world.settings(seed: seed)
      settings.mistake = mistake
      var run = SimulatedRun(seed: seed, faults: world.faults, settings: settings) {
        BrokenBroker(SimulatedBroker(world: $0), fault)
      }
      run.play()
      return run.world.auditor.violations.contains(where: saying)
    }
  }

  @Test func anEndThatIsTakenForItsSuccessorsIsCaught() {
    #expect(isCaught(in: .streams, mistake: .namesRequestsByJob) { $0.hasPrefix("accepted 3 times, 2 explained") })
  }

  @Test func aSecondCopyThatIsSentIsCaught() {
    #expect(isCaught(in: .repetitions, mistake: .forgetsClaims) { $0.contains("but without an outcome") })
  }

  @Test func aJobThatIsTooOldIsCaught() {
    #expect(isCaught(in: .ages, fault: .hidesEnqueueTimes) { $0.contains("after its end") })
  }

  @Test func aDeviceThatIsHeldBackForNothingIsCaught() {
    #expect(isCaught(in: .registrations, mistake: .marksEveryDevice) { $0.hasPrefix("held back for a device") })
  }

  @Test func anEndThatNobodyIsToldIsCaught() {
    #expect(isCaught(in: .pages, fault: .losesSettlements) { $0.hasPrefix("its audience was never told") })
    #expect(isCaught(in: .pages, fault: .losesSettlements) { $0.hasPrefix("acknowledged before its audience") })
  }

  @Test func anEndThatIsToldOfAnotherDeviceIsCaught() {
    #expect(isCaught(in: .pages, fault: .forgetsPositions) { $0.hasPrefix("its audience was never told") })
  }

  @Test func aCopyWithATokenIsCaught() {
    #expect(isCaught(in: .pages, fault: .keepsTokens) { $0.contains("after its device was forgotten") })
  }

  @Test func aRetryInAQueueTooFarIsCaught() {
    #expect(isCaught(in: .retries, fault: .spreadsRetries) { $0.contains(" attempts waits ") })
  }
}

/// A broker that makes its lane break one rule, as a mistake in the lane would.
struct BrokenBroker: SimulatedBrokerPort {
  enum Fault {
    case confirmsOutcomesUnpublished, confirmsRetriesUnpublished, publishesOutcomesTwice, acknowledgesOldTags
    case hidesRedeliveries, unmarksDeadLetters, hidesEnqueueTimes, spreadsRetries
    case losesSettlements, forgetsPositions, keepsTokens
  }

  private var inner: SimulatedBroker
  private let fault: Fault?
  /// Sequence numbers that no broker has seen, reported as confirmed at once; far above the real ones.
  private var invented: [UInt64] = []
  private var nextInvented: UInt64 = 0
  private var lastTag: DeliveryTag?

  init(_ inner: SimulatedBroker, _ fault: Fault?) {
    self.inner = inner
    self.fault = fault
  }

  var canPublish: Bool { inner.canPublish }
  var nextDue: Int64 { inner.nextDue }

  mutating func nextEvent(takesDeliveries: Bool) -> BrokerEvent? {
    if !invented.isEmpty {
      let first = invented.removeFirst()
      return .confirmed(first...first)
    }
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
    if fault == .hidesEnqueueTimes { metadata.enqueuedAt = nil }
  }

  mutating func publishOutcome(
    _ body: [UInt8], routingKey: [UInt8], apnsID: UUIDValue, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    switch fault {
    case .confirmsOutcomesUnpublished:
      return invent()
    case .publishesOutcomesTwice:
      _ = inner.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
    case .confirmsRetriesUnpublished, .acknowledgesOldTags, .hidesRedeliveries, .unmarksDeadLetters,
      .hidesEnqueueTimes, .spreadsRetries, .losesSettlements, .forgetsPositions, .keepsTokens, nil:
      break
    }
    return inner.publishOutcome(body, routingKey: routingKey, apnsID: apnsID, metadata: metadata)
  }

  mutating func publishRetry(
    _ body: [UInt8], jobClass: JobClass, delaySeconds: Int, state: RetryState, metadata: borrowing MessageMetadata
  ) -> UInt64 {
    if fault == .confirmsRetriesUnpublished { return invent() }
    var delay = delaySeconds
    if fault == .spreadsRetries, let longer = inner.world.settings.retry.delaysSeconds.first(where: { $0 > delay }) {
      delay = longer
    }
    return inner.publishRetry(
      miscopied(body), jobClass: jobClass, delaySeconds: delay, state: state, metadata: metadata)
  }

  /// A wrong copy for one device of a page: without the device's position, or with its token.
  private func miscopied(_ body: [UInt8]) -> [UInt8] {
    let text = String(decoding: body, as: UTF8.self)
    guard let position = text.firstRange(of: ",\"position\":"),
      let end = text[position.upperBound...].firstIndex(of: "}")
    else { return body }
    switch fault {
    case .forgetsPositions: return Array((text[..<position.lowerBound] + text[end...]).utf8)
    case .keepsTokens:
      guard let to = text.firstRange(of: "\"to\":{"), let start = text.firstRange(of: "\"ordinals\":["),
        let ordinal = UInt32(text[start.upperBound...].prefix { $0 != "]" }),
        let own = text.firstRange(of: "\"parent_id\":"), let comma = text[own.upperBound...].firstIndex(of: ",")
      else { return body }
      let token = RegistryServer.token(ordinal)
      return Array(
        (text[..<own.lowerBound] + text[text.index(after: comma)..<to.upperBound] + "\"token\":\"\(token)\""
          + text[end...]).utf8)
    default: return body
    }
  }

  mutating func publishSettlement(_ body: [UInt8], jobClass: JobClass) -> UInt64 {
    fault == .losesSettlements ? invent() : inner.publishSettlement(body, jobClass: jobClass)
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
  mutating func acknowledge(one tag: DeliveryTag) { inner.acknowledge(one: tag) }
  mutating func reject(_ tag: DeliveryTag, requeue: Bool) { inner.reject(tag, requeue: requeue) }
  mutating func stopConsuming() { inner.stopConsuming() }
  mutating func step() { inner.step() }
  mutating func die() { inner.die() }
}
