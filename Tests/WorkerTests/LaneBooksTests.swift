import Logging
import PushCore
import PushLane
import PushWorker
import Testing

/// How a worker combines its lanes' reports: sums never decrease, labels are few, and probes get the right state.
@Suite struct LaneBooksTests {
  private func report(received: UInt64, inFlight: Int = 0) -> LaneReport {
    var counters = LaneCounters()
    counters.received[0] = received
    counters.jobDuration.record(nanoseconds: 1_000_000)
    counters.countRetry(.internalServerError, delaySeconds: 5)
    counters.isolated = 3
    var report = LaneReport(
      counters: counters, jobsInFlight: inFlight, unconfirmed: inFlight, isConsuming: true, isExhausted: false)
    report.rabbitmqConnected = [("consumer", true), ("publisher", true)]
    report.isRedisUp = true
    report.responses = [LaneReport.Responses(status: 200, reason: "", count: received)]
    report.decidedLocally = [("duplicates", received)]
    report.redisSilences = 2
    report.stuckPools = 1
    report.connectionsOpened = 3
    report.badDeviceTokenWarnings = 1
    report.restarts[DeliveryStep.sent.rawValue] = 2
    report.oldestSeconds[DeliveryStep.sent.rawValue] = 4
    return report
  }

  private func metrics(_ controls: [LaneControl]) -> String {
    MetricsText.make(controls.compactMap(\.lastReport), tokens: [], certificates: [])
  }

  private static let counters = [
    "herald_jobs_received_total{class=\"transactional\"} 30", "herald_job_duration_seconds_count 2",
    "herald_retries_total{reason=\"InternalServerError\",delay=\"5\"} 2",
    "herald_apns_responses_total{status=\"200\",reason=\"\"} 30", "herald_lane_restarts_total{step=\"sent\"} 4",
    "herald_redis_decided_locally_total{feature=\"duplicates\"} 30", "herald_jobs_isolated_total 6",
    "herald_redis_silences_total{lane=\"0\"} 2", "herald_redis_silences_total{lane=\"1\"} 2",
    "herald_apns_bad_device_token_warnings_total 2",
  ]

  @Test func countersOfALaneThatDoesNotAnswerOrHasEndedStay() async {
    let controls = [LaneControl(name: "0"), LaneControl(name: "1")]
    controls[0].tell(report(received: 10))
    controls[1].tell(report(received: 20, inFlight: 7))
    for text in Self.counters { #expect(metrics(controls).contains("\n\(text)\n"), "\(text)") }
    #expect(metrics(controls).contains("\nherald_jobs_in_flight 7\n"))

    // These lanes do not run: the second one does not answer.
    #expect(await controls[1].report(timeoutMilliseconds: 1) == nil)
    #expect(!controls[1].isDone)
    for text in Self.counters { #expect(metrics(controls).contains("\n\(text)\n"), "\(text) when it stalls") }

    // It drains: its counters stay, its gauges go.
    controls[1].end(report(received: 20, inFlight: 7))
    #expect(await controls[1].report(timeoutMilliseconds: 1000) == nil)
    #expect(controls[1].isDone)
    for text in Self.counters { #expect(metrics(controls).contains("\n\(text)\n"), "\(text) when it has ended") }
    for text in [
      "herald_jobs_in_flight 0", "herald_outcomes_unconfirmed 0", "herald_rabbitmq_connected{role=\"consumer\"} 1",
      "herald_oldest_in_flight_seconds{step=\"sent\"} 4.0", "herald_redis_up 1",
    ] { #expect(metrics(controls).contains("\n\(text)\n"), "\(text)") }
  }

  @Test func aLaneThatFailsToStartIsNotDone() async {
    let control = LaneControl(name: "0")
    control.end()
    #expect(!control.isDone && control.lastReport == nil)
    #expect(await control.report(timeoutMilliseconds: 1000) == nil)
  }

  @Test func aDrainedLaneIsNoStalledOne() {
    let lanes = [
      WorkerHealth.Lane(name: "0", report: nil, isDone: true), .init(name: "1", report: nil),
      .init(name: "2", report: report(received: 1)),
    ]
    #expect(WorkerHealth.stalled(lanes) == ["1"])
  }

  @Test func aLaneWithoutItsPublisherIsNotReady() {
    var report = report(received: 1)
    #expect(WorkerHealth.problems([.init(name: "0", report: report)]) == [])
    // A broker alarm concerns every worker, so it is no fault of this one.
    report.isBlocked = true
    #expect(WorkerHealth.problems([.init(name: "0", report: report)]) == [])
    report.rabbitmqConnected = [("consumer", true), ("publisher", false)]
    #expect(
      WorkerHealth.problems([.init(name: "0", report: report)])
        == ["lane 0 is not connected to RabbitMQ for publishing"])
    report.isConsuming = false
    #expect(WorkerHealth.problems([.init(name: "0", report: report)]) == ["lane 0 is not consuming from RabbitMQ"])
    #expect(WorkerHealth.problems([.init(name: "0", report: nil)]) == ["lane 0 does not answer"])
  }

  private func count(_ app: String, _ counters: inout LaneCounters, times: Int = 1) {
    var job = PushJob()
    job.bytes = Array(app.utf8)
    job.app = ByteRange(start: 0, count: job.bytes.count)
    for _ in 0..<times {
      let index = counters.appIndex(of: job)
      counters.count(.invalid, .production, app: index, .alert)
    }
  }

  /// Jobs with wrong apps came first: the apps of credentials are counted under their names all the same, also those of a reload.
  @Test func inventedAppsTakeNoLabelOfARealOne() {
    var counters = LaneCounters()
    counters.reserveLabels(for: ["com.example.app", "com.example.idle"])
    for number in 0..<3_000 { count("wrong-\(number)", &counters) }
    count("com.example.app", &counters, times: 7)
    counters.reserveLabels(for: (0..<700).map { "new-\($0)" } + ["com.example.app"])
    for number in 0..<700 { count("new-\(number)", &counters, times: 2) }
    count("other", &counters)
    let counts = Dictionary(uniqueKeysWithValues: counters.outcomeCounts.map { ($0.app, $0.count) })
    #expect(counts["com.example.app"] == 7)
    #expect((0..<700).allSatisfy { counts["new-\($0)"] == 2 })
    #expect(counts["wrong-0"] == 1 && counts["wrong-499"] == 1 && counts["wrong-500"] == nil)
    #expect(counts["other"] == 2_501, "invented apps are few")
    #expect(counts.count == 1 + 700 + 500 + 1)
  }

  @Test func labelsOfRetriesAreFew() {
    var counters = LaneCounters(retryDelaysSeconds: [1, 5])
    for number in 0..<1000 { counters.countRetry(.other("Reason\(number)"), delaySeconds: number) }
    counters.countRetry(nil, delaySeconds: 1)
    counters.countRetry(.tooManyRequests, delaySeconds: 5)
    #expect(
      counters.retries == [
        .init(reason: "other", delaySeconds: 1): 1, .init(reason: "other", delaySeconds: 5): 1,
        .init(reason: "other", delaySeconds: nil): 998, .init(reason: "none", delaySeconds: 1): 1,
        .init(reason: "TooManyRequests", delaySeconds: 5): 1,
      ])
    let report = LaneReport(counters: counters, jobsInFlight: 0, unconfirmed: 0, isConsuming: true, isExhausted: false)
    let metrics = MetricsText.make([report], tokens: [], certificates: [])
    #expect(metrics.contains("herald_retries_total{reason=\"other\",delay=\"other\"} 998\n"))
  }

  // MARK: notices

  private func at(_ seconds: Int64) -> Now {
    Now(
      monotonic: Instant(nanoseconds: (500 + seconds) * 1_000_000_000),
      unixMilliseconds: (1_795_262_400 + seconds) * 1000)
  }

  /// A consumer whose connection came back after its fourth change in a minute does not stay "lost" in the log.
  @Test func aConsumersLastStateIsLogged() {
    var lines: [String] = []
    let notices = ConsumerNotices(subjects: ["rabbitmq"]) { lines.append("\($0) \($1)") }
    for second in Int64(0)..<6 {
      notices.turn(now: at(second))
      notices.report(.warning, second % 2 == 0 ? "rabbitmq: lost" : "rabbitmq: connected", now: at(second))
      notices.report(.info, "a job was given up", now: at(second))
    }
    #expect(lines.count == 10 && lines.last == "info a job was given up")
    lines = []
    for second in Int64(6)..<70 { notices.turn(now: at(second)) }
    #expect(lines.isEmpty, "it is as it was logged last")
    for second in Int64(70)..<75 {
      notices.report(.warning, second % 2 == 0 ? "rabbitmq: lost" : "rabbitmq: connected", now: at(second))
    }
    #expect(lines.count == 4 && lines.last == "warning rabbitmq: connected")
    lines = []
    for second in Int64(75)..<140 { notices.turn(now: at(second)) }
    #expect(lines == ["warning rabbitmq: lost (since 2026-11-21T12:01:14.000Z)"])
  }

  @Test func whatWasHeldBackTellsItsOwnTime() throws {
    let notices = LaneNotices()
    func report(_ text: String, _ level: Logger.Level, _ second: Int64) -> LaneNotice? {
      notices.report(LaneNotice(level, "redis", text, ["node": "a"]), at(second))
    }
    for second in Int64(0)..<4 { #expect(report(second % 2 == 0 ? "down" : "up", .info, second) != nil) }
    #expect(report("down", .info, 4) == nil)
    #expect(report("gone", .error, 5) == nil, "four a minute")
    #expect(notices.due(at(30)).isEmpty)
    let reported = try #require(notices.due(at(61)).first)
    #expect(reported.text == "gone" && reported.level == .error, "as it was")
    #expect(reported.metadata["since"] == "2026-11-21T12:00:05.000Z")
    #expect(reported.metadata["node"] == "a" && reported.metadata["kept_quiet"] == .stringConvertible(1))
    #expect(notices.due(at(62)).isEmpty)
    // A condition that is reported at once has no `since`.
    #expect(report("up", .info, 63)?.metadata["since"] == nil)
  }
}
