import PushCore
import PushLane
import Testing

/// What a lane does with jobs for audiences, and with their pages.
@Suite struct LaneAudienceTests {
  /// Of the pages, as a report names it.
  static let app = #""app":"com.example.app","environment":"production""#

  let parent = """
    {"version":1,"id":"p","app":"com.example.app","push_type":"alert","to":{"users":["u"]},"payload":{"aps":{"alert":"x"}}}
    """

  func page(_ ordinals: String, position: String = "") -> String {
    """
    {"version":1,"parent_id":"p","id":"p/3","app":"com.example.app","push_type":"alert",\
    "to":{"page":3,"ordinals":[\(ordinals)]\(position)},"payload":{"aps":{"alert":"x"}}}
    """
  }

  func bench(_ body: String, retry: RetryPolicy = RetryPolicy()) -> LaneBench {
    let bench = LaneBench(retry: retry)
    bench.world.bodies[0] = body
    return bench
  }

  func token(_ number: UInt8) -> [UInt8] { [0xAA, 0, 0, 0, number] }

  func part(_ text: String, _ bench: LaneBench) -> Bool { bench.world.outcomes.contains { $0.contains(text) } }

  /// Pages that wait for it would keep the deliveries that other jobs need.
  @Test func aSilentRegistryIsAskedAboutOnePage() {
    let bench = LaneBench()
    for number in 0..<20 { bench.world.bodies[number] = page("1") }
    bench.world.tokens = nil
    bench.world.namesNobody = true
    bench.consume(0..<20)
    bench.turn()
    #expect(bench.world.pagesAsked.count == 8 && bench.jobsInFlight == 20)
    // All eight time out.
    bench.world.namesNobody = false
    bench.turn(1)
    bench.world.namesNobody = true
    bench.turn()
    let counts = [bench.world.pagesAsked.count, bench.world.retries.count, bench.jobsInFlight]
    #expect(counts == [1, 19, 1])
    bench.world.tokens = [1: token(1)]
    bench.world.namesNobody = false
    bench.turn()
    bench.world.namesNobody = true
    for number in 20..<30 { bench.world.bodies[number] = page("1") }
    bench.consume(20..<30)
    bench.turn()
    #expect(bench.world.requests.count == 1 && bench.world.pagesAsked.count == 8)
  }

  // MARK: audiences

  @Test func anAudienceIsCopiedBeforeItIsAcknowledged() {
    let bench = bench(parent)
    bench.world.confirmsPublishes = false
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.expansions == [parent])
    #expect(bench.world.acknowledged.isEmpty)
    bench.world.events.append(.confirmed(1...1))
    bench.turn()
    #expect(bench.world.acknowledged == [1])
    #expect(bench.world.arrivals.isEmpty && bench.world.outcomes.isEmpty && bench.jobsInFlight == 0)
  }

  /// So do the reports of its pages.
  @Test(arguments: JobClass.allCases) func anAudienceStaysInItsClass(jobClass: JobClass) {
    let bench = bench(parent)
    bench.world.tokens = [7: token(7)]
    bench.world.bodies[1] = page("7")
    bench.consume(0..<0)
    for number in 0..<2 { bench.world.deliver(number, jobClass: jobClass) }
    bench.turn()
    bench.world.answer(bench.world.requests[0])
    bench.turn()
    #expect(bench.world.expansions.count == 1 && bench.world.settlements.count == 1)
    #expect(bench.world.audienceClasses == [jobClass])
  }

  @Test func anAudienceWhoseTimeIsOverEnds() {
    let bench = bench(parent)
    bench.consume(0..<1) { $0.enqueuedAt = 1_000_000 }
    bench.turn()
    #expect(bench.world.expansions.isEmpty)
    #expect(part(#""outcome":"expired""#, bench) && part(#""to":{"users":["u"]}"#, bench))
    #expect(bench.world.acknowledged == [1] && bench.world.outcomes.count == 1)
  }

  /// An earlier delivery may have handed it over: its pages tell the ends then, and a second end would contradict them.
  @Test(arguments: [true, false]) func anAudienceThatIsDeliveredAgainLateHasNoEndOfItsOwn(isCopy: Bool) {
    let bench = bench(parent)
    bench.consume(0..<1) { metadata in
      metadata.enqueuedAt = 1_000_000
      if isCopy { metadata.redeliveries = 1 } else { metadata.deliveryCount = 1 }
    }
    bench.turn()
    #expect(bench.world.expansions == [parent] && bench.world.outcomes.isEmpty)
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  /// `herald send` has no registry.
  @Test(arguments: [true, false]) func withoutDevicesAnAudienceIsRefused(isPage: Bool) {
    let bench = bench(isPage ? page("1") : parent)
    bench.world.knowsDevices = false
    bench.consume(0..<1)
    bench.turn()
    #expect(part(#""outcome":"invalid""#, bench) && part("needs the registry of devices", bench))
    #expect(bench.jobsInFlight == 0)
  }

  // MARK: pages

  /// The machine's clock is an hour ahead, and nobody has told the time yet: only the pages will know whether the job's time is over.
  @Test func anAudienceDoesNotExpireByAnUncheckedClock() {
    let bench = bench(parent, retry: RetryPolicy(ageMaximumSeconds: 600))
    bench.world.hasRedisTime = false
    bench.consume(0..<1) { $0.enqueuedAt = bench.world.milliseconds - 3_600_000 }
    bench.turn()
    #expect(bench.world.expansions == [parent] && bench.world.outcomes.isEmpty)
  }

  @Test func aPageIsSentToTheTokensThatItsDevicesHave() {
    let bench = bench(page("7,8,9"))
    bench.world.tokens = [7: token(7), 9: token(9)]
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.sentTokens == ["aa00000007", "aa00000009"])
    #expect(bench.world.admittedRegistrations == [7000, 9000])
    bench.world.answer(bench.world.requests[0])
    bench.turn()
    #expect(bench.world.settlements.isEmpty && bench.world.acknowledged.isEmpty)
    bench.world.answer(bench.world.requests[1], status: 400, reason: .badDeviceToken)
    bench.turn()
    #expect(part(#""to":{"device":"device-7"}"#, bench) && part(#""parent_id":"p""#, bench))
    #expect(
      bench.world.settlements == [
        #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"asr","ordinals":"0:7,8,9"}"#
      ])
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  @Test func aPageIsNotAcknowledgedBeforeItTold() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1)
    bench.turn()
    bench.world.confirmsPublishes = false
    bench.world.answer(bench.world.requests[0])
    bench.turn()
    #expect(bench.world.settlements.isEmpty, "not before the outcome is confirmed")
    bench.world.events.append(.confirmed(bench.world.sequence...bench.world.sequence))
    bench.turn()
    #expect(bench.world.settlements.count == 1 && bench.world.acknowledged.isEmpty)
    bench.world.events.append(.refused(bench.world.sequence...bench.world.sequence))
    bench.turn(40)
    #expect(bench.world.settlements.count == 2 && bench.world.acknowledged.isEmpty)
    bench.world.events.append(.confirmed(bench.world.sequence...bench.world.sequence))
    bench.turn()
    #expect(bench.world.acknowledged == [1] && bench.world.outcomes.count == 1)
  }

  /// Its job came twice, and its newer page has one of the devices: what that one tells is not lost if it never comes.
  @Test func aPageWaitsForWhatAnotherTells() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.world.toldElsewhere = [7]
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.requests.isEmpty && bench.world.settlements.isEmpty)
    #expect(bench.world.retries.count == 1 && bench.world.acknowledged == [1])
  }

  @Test func aPageOfNobodyIsOnlyTold() {
    let bench = bench(page("7,8"))
    bench.consume(0..<1)
    bench.turn()
    #expect(
      bench.world.settlements == [
        #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"ss","ordinals":"0:7,8"}"#
      ])
    #expect(bench.world.outcomes.isEmpty && bench.world.arrivals.isEmpty && bench.world.acknowledged == [1])
  }

  var startPage: String {
    """
    {"version":1,"parent_id":"p","id":"p/3","app":"com.example.app","push_type":"liveactivity","activity":"ride",\
    "to":{"page":3,"ordinals":[7]},"revision":1,"payload":{"aps":{"event":"start","attributes-type":"R","attributes":{},\
    "content-state":{},"alert":{"title":"t","body":"b"},"timestamp":1}}}
    """
  }

  /// An earlier copy of the page may have been sent, and APNs may have accepted it, whatever it answers now.
  @Test(arguments: [true, false]) func startThatMayHaveBeenAccepted_keepsItsDevice(mayBeRepeated: Bool) {
    let bench = bench(startPage)
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1) { $0.isAmbiguous = mayBeRepeated }
    bench.turn()
    bench.world.answer(bench.world.requests[0], status: 400, reason: .badDeviceToken)
    bench.turn()
    #expect(part(#""outcome":"rejected""#, bench) && part(#""ambiguous":true"#, bench) == mayBeRepeated)
    #expect(bench.world.settlements.last?.contains(mayBeRepeated ? #""starts":"y""# : #""starts":"n""#) == true)
  }

  /// Its job is cancelled, or its token is gone, before anything was sent: another start may have the device.
  @Test(arguments: [AudienceStanding.cancelled, .running], [true, false])
  func startThatWasNotSent_freesItsDevice(standing: AudienceStanding, mayBeRepeated: Bool) {
    let bench = bench(startPage)
    bench.world.standing = standing
    bench.consume(0..<1) { $0.isAmbiguous = mayBeRepeated }
    bench.turn()
    #expect(bench.world.requests.isEmpty)
    #expect(bench.world.settlements.last?.contains(mayBeRepeated ? #""starts":"y""# : #""starts":"n""#) == true)
  }

  /// The clock was ahead when it was looked up, and no device was marked as being started: it is looked up again, before it starts or later,
  /// also if its time will be over by then.
  @Test(arguments: [false, true], [nil, 1] as [Int64?])
  func startThatIsNotOverAfterAll_isLookedUpAgain(hasStarted: Bool, expiration: Int64?) {
    var body = startPage
    let bench = bench(body, retry: RetryPolicy(ageMaximumSeconds: 300))
    if let expiration {
      let at = bench.world.milliseconds / 1000 + expiration
      body = body.replacing(#""revision""#, with: #""expiration":\#(at),"revision""#)
      bench.world.bodies[0] = body
    }
    bench.world.tokens = [7: token(7)]
    bench.world.namesNobody = !hasStarted
    bench.world.admitsNothing = true
    bench.consume(0..<1) { $0.enqueuedAt = bench.world.milliseconds }
    bench.world.clockAheadMilliseconds = 600_000
    bench.turn(hasStarted ? 2 : 1)
    #expect(bench.world.pagesOver == [true] && bench.world.arrivals.count == (hasStarted ? 1 : 0))
    bench.world.clockAheadMilliseconds = 0
    bench.world.namesNobody = false
    bench.world.admitsNothing = false
    bench.turn()
    #expect(bench.world.requests.isEmpty && bench.world.outcomes.isEmpty)
    #expect(bench.world.retries.count == 1 && bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  /// Redis has another page of its number by now: how its devices end would count for others there.
  @Test func aPageThatWasMadeAnewElsewhereTellsNothing() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7)]
    bench.world.areForeign = true
    bench.consume(0..<1)
    bench.turn()
    bench.world.answer(bench.world.requests[0])
    bench.turn()
    #expect(part(#""outcome":"accepted""#, bench) && bench.world.settlements.isEmpty)
    #expect(bench.world.acknowledged == [1])
  }

  /// Nothing is sent to it, and another copy has it: its answer is waited for once.
  @Test(arguments: [false, true]) func anOvertakenDeviceWaitsForAClaimOnce(hasWaited: Bool) {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.superseded = [7]
    bench.world.admission = .claimed(retryAfterMilliseconds: 50_000)
    bench.consume(0..<1) { if hasWaited { $0.redeliveries = 1 } }
    bench.turn()
    #expect(bench.world.requests.isEmpty && bench.world.retryBodies.count == (hasWaited ? 0 : 1))
    #expect(part(#""outcome":"throttled""#, bench) == hasWaited && part(#""ambiguous":true"#, bench) == hasWaited)
  }

  /// Its copy comes back with its ordinal, and settles its own position.
  @Test func aDeviceThatWaitsIsSettledByItsCopy() {
    let bench = bench(page("7,8"))
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.consume(0..<1)
    bench.turn()
    bench.world.answer(bench.world.requests[0])
    bench.world.answer(bench.world.requests[1], status: 503, reason: .serviceUnavailable)
    bench.turn()
    #expect(
      bench.world.settlements == [
        #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"a-","ordinals":"0:7,8"}"#
      ])
    #expect(bench.world.retryBodies == [page("8", position: #","position":1"#)])
    #expect(bench.world.acknowledged == [1])
    bench.world.bodies[1] = bench.world.retryBodies[0]
    bench.world.tokens = [8: token(88)]
    bench.world.deliver(1)
    bench.turn()
    #expect(bench.world.sentTokens.last == "aa00000058", "the token that it has now")
    bench.world.answer(bench.world.requests[2])
    bench.turn()
    #expect(
      bench.world.settlements.last
        == #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":1,"ends":"a","ordinals":"0:8"}"#)
    #expect(bench.world.acknowledged.last == 2)
  }

  /// Meanwhile it may have been forgotten, or have another token.
  @Test(arguments: [19_900, 20_000] as [Int64]) func aDeviceThatWaitedLongIsLookedUpAgain(milliseconds: Int64) {
    let bench = LaneBench { $0.admissionAgeMaximumMilliseconds = 60_000 }
    bench.world.bodies[0] = page("7,8")
    bench.world.tokens = [7: token(7), 8: token(8)]
    bench.world.admitsNothing = true
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.arrivals.count == 2 && bench.world.requests.isEmpty)
    bench.world.milliseconds += milliseconds
    bench.world.admitsNothing = false
    bench.turn()
    guard milliseconds >= 20_000 else {
      #expect(bench.world.requests.count == 2 && bench.world.retryBodies.isEmpty)
      return
    }
    #expect(bench.world.requests.isEmpty)
    #expect(bench.world.retryBodies == [0, 1].map { page("\(7 + $0)", position: #","position":\#($0)"#) })
    #expect(bench.world.retries.map(\.attempts) == [0, 0] && bench.world.retryDelays == [1, 1])
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  /// It waits as after any other attempt, and is sent if its time would be over by then.
  @Test(arguments: [nil, 30] as [Int64?]) func aDeviceThatIsLookedUpAgainWaitsAsItsAttempts(expiration: Int64?) {
    let bench = LaneBench(retry: RetryPolicy(delaysSeconds: [20, 40, 60])) {
      $0.admissionAgeMaximumMilliseconds = 600_000
    }
    var body = page("7")
    if let expiration {
      let at = bench.world.milliseconds / 1000 + expiration
      body = body.replacing(#""payload""#, with: #""expiration":\#(at),"payload""#)
    }
    bench.world.bodies[0] = body
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1) { $0.attempts = 2 }
    bench.turn()
    bench.world.milliseconds += 20_000
    bench.world.answer(bench.world.requests[0], status: 403, reason: .expiredProviderToken)
    bench.turn()
    if expiration == nil {
      #expect(bench.world.requests.count == 1 && bench.world.retryDelays == [60])
      #expect(bench.world.retries.map(\.attempts) == [3])
    } else {
      #expect(bench.world.requests.count == 2 && bench.world.retries.isEmpty)
    }
  }

  /// One copy of it waits, and not one for each device.
  @Test func aPageThatBecomesOldBeforeItStartsWaitsAsAWhole() {
    let bench = bench(page("7,8,9"))
    bench.world.tokens = [7: token(7), 9: token(9)]
    bench.world.namesNobody = true
    bench.consume(0..<1)
    bench.turn()
    bench.world.canPublish = false
    bench.world.namesNobody = false
    bench.turn()
    bench.world.milliseconds += 20_000
    bench.world.canPublish = true
    bench.turn()
    #expect(bench.world.arrivals.isEmpty && bench.world.settlements.isEmpty)
    #expect(bench.world.retryBodies == [page("7,8,9")])
    #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
  }

  /// Its devices could not be sent anything.
  @Test func noPageIsLookedUpWhileNothingCanBePublished() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.canPublish = false
    bench.consume(0..<1)
    bench.turn()
    bench.world.milliseconds += 60_000
    bench.turn()
    #expect(bench.world.pagesAsked.isEmpty && bench.world.requests.isEmpty)
    bench.world.canPublish = true
    bench.turn()
    #expect(bench.world.sentTokens == ["aa00000007"] && bench.world.retryBodies.isEmpty)
  }

  /// All of its devices wait: nothing is to be told.
  @Test func aPageWithoutAnEndTellsNothing() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1)
    bench.turn()
    bench.world.answer(bench.world.requests[0], status: 503, reason: .serviceUnavailable)
    bench.turn()
    #expect(bench.world.settlements.isEmpty && bench.world.acknowledged == [1])
  }

  @Test func aTokenThatIsGoneIsTheRegistrysNews() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1)
    bench.turn()
    bench.world.answer(bench.world.requests[0], status: 410, reason: .unregistered)
    bench.turn()
    #expect(bench.world.tokensGone.map(\.ordinal) == [7])
    #expect(bench.world.settlements.last?.contains(#""ends":"u""#) == true)
  }

  @Test func aTokenThatIsMarkedDeadIsTheRegistrysNewsToo() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.admission = .dead(unregisteredAt: 99)
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.world.tokensGone.map(\.since) == [99])
  }

  // MARK: nobody can say who the devices are

  @Test func aPageWaitsForTheRegistryWhateverItsAge() {
    let bench = bench(page("7,8"))
    bench.world.tokens = nil
    bench.consume(0..<1) { $0.enqueuedAt = 1_000_000 }
    bench.turn()
    #expect(bench.world.retryBodies == [page("7,8")], "whole, and nobody's end")
    #expect(bench.world.retryDelays == [1] && bench.world.retries.map(\.attempts) == [0])
    #expect(bench.world.outcomes.isEmpty && bench.world.settlements.isEmpty && bench.world.acknowledged == [1])
  }

  @Test func theWaitBecomesLonger() {
    let bench = bench(page("7"))
    bench.world.tokens = nil
    bench.consume(0..<1) { $0.firstSeen = 1_800_000_000_000 - 20_000 }
    bench.turn()
    #expect(bench.world.retryDelays == [30])
  }

  /// Its consumer is gone while the registry looks: the answer finds nobody.
  @Test func anAnswerThatComesTooLateFindsNobody() {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.world.namesNobody = true
    bench.consume(0..<1)
    bench.turn()
    #expect(bench.jobsInFlight == 1)
    bench.world.loseConsumer()
    bench.turn()
    bench.world.namesNobody = false
    bench.turn()
    #expect(bench.jobsInFlight == 0 && bench.world.requests.isEmpty)
  }

  /// A page that came before may have been sent: it waits for whoever lost it, as a batch does.
  @Test func aPageThatIsDeliveredAgainWaitsAsAWhole() {
    let bench = bench(page("7,8"))
    bench.consume(0..<1) { $0.deliveryCount = 1 }
    bench.turn()
    #expect(bench.world.pagesAsked.isEmpty && bench.world.retryBodies == [page("7,8")])
  }

  /// Devices of pages that are not sent are looked up for the outcomes alone: late pushes go out in their place.
  @Test(arguments: [true, false]) func aLookupKnowsWhetherThePageIsSent(isLate: Bool) {
    let bench = bench(page("7"))
    bench.world.tokens = [7: token(7)]
    bench.consume(0..<1) { if isLate { $0.enqueuedAt = 1_000_000 } }
    bench.turn()
    #expect(bench.world.pagesOver == [isLate] && bench.world.requests.isEmpty == isLate)
  }

  /// Tokens are read when their page is about to be sent, and not for a queue full of pages.
  @Test func fewPagesAreLookedUpAhead() {
    let bench = LaneBench(prefetch: 60)
    for number in 0..<20 { bench.world.bodies[number] = page("\(number + 1)") }
    bench.world.tokens = Dictionary(uniqueKeysWithValues: (1...20).map { (UInt32($0), token(UInt8($0))) })
    bench.world.namesNobody = true
    bench.consume(0..<20)
    bench.turn()
    #expect(bench.jobsInFlight == 20 && bench.world.pagesAsked.count == 8)
    bench.world.namesNobody = false
    bench.turn(8)
    #expect(bench.world.sentTokens.count == 20 && bench.world.pagesAsked.isEmpty)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn(8)
    #expect(bench.world.settlements.count == 20 && bench.jobsInFlight == 0)
  }

  /// Pages that wait are forgotten with their consumer, and those that come again are looked up.
  @Test func pagesThatWaitGoWithTheirConsumer() {
    let bench = LaneBench(prefetch: 60)
    for number in 0..<20 { bench.world.bodies[number] = page("\(number + 1)") }
    bench.world.namesNobody = true
    for _ in 0..<3 {
      bench.consume(0..<20)
      bench.turn()
      bench.world.loseConsumer()
      bench.turn()
      #expect(bench.jobsInFlight == 0)
    }
    bench.world.namesNobody = false
    bench.world.tokens = Dictionary(uniqueKeysWithValues: (1...20).map { (UInt32($0), token(UInt8($0))) })
    bench.consume(0..<20)
    bench.turn(8)
    #expect(bench.world.sentTokens.count == 20)
  }
}
