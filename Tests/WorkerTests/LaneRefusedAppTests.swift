import PushCore
import Testing

@testable import PushLane

/// A lane whose broker refuses the outcomes of some apps: a queue that gets those alone is full.
@Suite struct LaneRefusedAppTests {
  private let full = "com.example.full"

  /// Delivers jobs of an app, and answers their requests.
  private func send(_ numbers: Range<Int>, of app: String, _ bench: LaneBench) {
    deliver(numbers, of: app, bench)
    bench.turn(2)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.world.requests = []
    bench.turn(2)
  }

  private func deliver(_ numbers: Range<Int>, of app: String, _ bench: LaneBench, with member: String = "") {
    for number in numbers {
      bench.world.bodies[number] = """
        {"version":1,"id":"job-\(number)","app":"\(app)","push_type":"alert","to":{"token":"\(Hex.text(number, count: 16))"},\
        \(member)"payload":{"aps":{"alert":"hello"}}}
        """
      bench.world.deliver(number)
    }
  }

  private func outcomes(of app: String, _ bench: LaneBench) -> Int {
    bench.world.outcomes.count { $0.contains("\"app\":\"\(app)\"") }
  }

  @Test func oneAppsOutcomesThatAreRefused_holdUpNoOther() {
    let bench = LaneBench(prefetch: 160)
    bench.consume(0..<0)
    bench.world.refusedApps = [full]
    send(0..<20, of: full, bench)
    send(20..<30, of: "com.example.app", bench)
    #expect(bench.jobsInFlight == 20 && outcomes(of: "com.example.app", bench) == 10, "at once, and once each")
    bench.turn(2_000)
    // Ten seconds: 0.1 + 0.2 + 0.4 + 0.8 + 1.6 + 3.2 + …
    #expect(20 + 5...20 + 8 ~= outcomes(of: full, bench), "\(outcomes(of: full, bench)) outcomes were published")
    #expect(bench.world.notes == ["results com.example.full refuses"] && bench.contradiction == nil)
    send(30..<40, of: "com.example.app", bench)
    #expect(bench.jobsInFlight == 20 && outcomes(of: "com.example.app", bench) == 20)
    bench.world.refusedApps = []
    bench.turn(1_100)
    #expect(bench.jobsInFlight == 0 && outcomes(of: full, bench) <= 20 + 8 + 20)
    bench.turn(2_100)
    #expect(bench.world.notes.last == "results com.example.full takes" && bench.contradiction == nil)
    send(40..<50, of: full, bench)
    #expect(bench.jobsInFlight == 0)
  }

  /// They would take the whole prefetch. Nothing is asked about them, and nothing is sent.
  @Test func laterJobsOfSuchAnApp_waitInRetryQueues() {
    let bench = LaneBench(prefetch: 160)
    bench.consume(0..<0)
    bench.world.refusedApps = [full]
    send(0..<20, of: full, bench)
    bench.turn(40)
    deliver(20..<22, of: full, bench)
    bench.turn(2)
    #expect(bench.world.requests.count == 2 && bench.world.retries.isEmpty, "it may be over soon")
    bench.turn(200)
    let asked = bench.world.arrivals.count
    deliver(22..<60, of: full, bench)
    deliver(60..<70, of: "com.example.app", bench)
    bench.turn(4)
    #expect(bench.world.retries.count == 38 && bench.world.arrivals.count == asked + 10)
    #expect(bench.world.requests.count == 12 && bench.jobsInFlight == 20 + 2 + 10)
    #expect(bench.world.retries.allSatisfy { $0.attempts == 0 && !$0.isAmbiguous })
    // The other class has a share of its own.
    bench.world.deliver(22, jobClass: .bulk)
    bench.turn(4)
    #expect(bench.world.retries.count == 38 && bench.world.requests.count == 13)
    bench.world.refusedApps = []
    bench.turn(1_100)
    deliver(70..<80, of: full, bench)
    bench.turn(4)
    #expect(bench.world.requests.count == 23 && bench.world.retries.count == 38 && bench.contradiction == nil)
  }

  /// Nothing of them is sent, but each would hold its delivery until its outcome is taken.
  @Test(arguments: [#""expiration":1,"#, #""priority":7,"#])
  func jobsThatEndAtOnce_waitInRetryQueues(member: String) {
    let bench = LaneBench(prefetch: 160)
    bench.consume(0..<0)
    bench.world.refusedApps = [full]
    deliver(0..<20, of: full, bench, with: member)
    bench.turn(240)
    #expect(bench.jobsInFlight == 20 && bench.world.retries.isEmpty)
    deliver(20..<120, of: full, bench, with: member)
    bench.turn(4)
    #expect(bench.world.retries.count == 100 && bench.jobsInFlight == 20 && bench.contradiction == nil)
    deliver(120..<125, of: "com.example.app", bench, with: member)
    bench.turn(4)
    #expect(outcomes(of: "com.example.app", bench) == 5, "at once")
    bench.turn(2_000)
    #expect(bench.world.notes == ["results com.example.full refuses"])
    bench.world.refusedApps = []
    bench.turn(1_100)
    #expect(bench.jobsInFlight == 0 && outcomes(of: full, bench) >= 20)
  }

  /// What is refused by all looks like many apps: they are tried together as often as one, and other apps' outcomes once.
  @Test func allApps_areTriedAsOftenAsOne() {
    let bench = LaneBench(prefetch: 400) { $0.refusedMaximum = 1_000 }
    bench.consume(0..<0)
    bench.world.refuses = [.results]
    let count = RefusedOutcomes.appsMaximum
    for app in 0..<count { send(app * 3..<app * 3 + 3, of: "com.example.app\(app)", bench) }
    bench.turn(6_000)
    let (before, renewals) = (bench.world.outcomes.count, bench.world.renewals)
    #expect(1...30 ~= renewals, "\(renewals) fresh channels in 30 s")
    bench.turn(20_000)
    let more = bench.world.outcomes.count - before
    #expect(15...24 ~= more, "\(more) in 100 s")
    #expect(bench.world.renewals - renewals <= more)
    let tried = bench.world.outcomes.suffix(more).map {
      $0.split(separator: "com.example.app")[1].prefix { $0 != "\"" }
    }
    #expect(Set(tried.prefix(count)).count == min(more, count), "each in turn: \(tried)")
    // One more than have a state of their own: all the others wait.
    send(100..<103, of: "com.example.late", bench)
    bench.turn(200)
    send(103..<106, of: "com.example.later", bench)
    #expect(outcomes(of: "com.example.later", bench) <= 1)
    bench.world.refuses = []
    bench.turn(3_000)
    #expect(bench.jobsInFlight == 0 && bench.contradiction == nil, "\(bench.jobsInFlight) jobs wait")
  }

  /// They come to the lane before the first outcome is refused: others have deliveries left, and what waits here for its turn leaves.
  @Test func burstOfSuchAnApp_leavesDeliveriesToOthers() {
    let bench = LaneBench(prefetch: 160) { settings in
      settings.jobsSentMaximum = 70
    }
    bench.consume(0..<0)
    bench.world.refusedApps = [full]
    deliver(0..<80, of: full, bench)
    bench.turn(2)
    #expect(bench.world.requests.count == 70)
    for ticket in bench.world.requests { bench.world.answer(ticket) }
    bench.turn(10)
    #expect(bench.world.requests.count == 70 && bench.jobsInFlight == 80, "answers alone make no room")
    bench.turn(220)
    #expect(bench.world.retries.count == 10 && bench.jobsInFlight == 70 && bench.contradiction == nil)
    bench.world.requests = []
    send(80..<82, of: "com.example.app", bench)
    #expect(outcomes(of: "com.example.app", bench) == 2)
  }

  @Test func deliveriesThatAreGone_areForgotten() {
    let bench = LaneBench(prefetch: 160)
    bench.consume(0..<0)
    bench.world.refusedApps = [full]
    send(0..<20, of: full, bench)
    bench.turn(300)
    bench.world.loseConsumer()
    bench.turn(4)
    #expect(bench.jobsInFlight == 0 && bench.contradiction == nil)
    bench.consume(0..<0)
    send(20..<22, of: full, bench)
    #expect(bench.jobsInFlight == 2)
    bench.world.events += [.publishingStopped, .publishing]
    bench.world.refusedApps = []
    bench.turn(400)
    #expect(bench.jobsInFlight == 0 && bench.contradiction == nil)
  }
}
