import Foundation
import Glibc
import PushCore
import TestSupport
import Testing

/// Probes and metrics of a running worker, over HTTP.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerAdminTests {
  private static let promised = [
    "herald_jobs_received_total", "herald_jobs_in_flight", "herald_outcomes_total", "herald_apns_responses_total",
    "herald_apns_request_duration_seconds", "herald_job_duration_seconds", "herald_job_age_seconds",
    "herald_retries_total", "herald_dead_letters_total", "herald_apns_connections", "herald_apns_streams_in_flight",
    "herald_apns_goaway_total", "herald_rabbitmq_connected", "herald_rabbitmq_blocked", "herald_outcomes_unconfirmed",
    "herald_redis_up", "herald_redis_degraded", "herald_rate_limited_total", "herald_suppressed_total",
    "herald_duplicates_suppressed_total", "herald_provider_token_issued_timestamp_seconds",
    "herald_provider_token_refreshes_total", "herald_certificate_not_after_timestamp_seconds",
    "herald_event_loop_turn_duration_seconds", "herald_build_info", "herald_apns_paused", "herald_apns_paused_topics",
    "herald_apns_pauses_total", "herald_apns_rules_missed_total", "herald_apns_stalled", "herald_apns_stream_limit",
    "herald_apns_send_window_bytes", "herald_apns_connections_ended_total", "herald_apns_connections_failed_total",
    "herald_apns_tls_failures_total", "herald_apns_clock_skew_seconds", "herald_outcomes_ambiguous_total",
    "herald_oldest_in_flight_seconds", "herald_lanes_standing_still", "herald_lane_restarts_total",
    "herald_redis_decided_locally_total", "herald_redis_silences_total", "herald_provider_token_adoptions_total",
    "herald_jobs_isolated_total",
  ]

  /// Whoever may only connect uses up neither the port nor the descriptors of the worker.
  @Test func connectionsThatAskNothing_areClosed() throws {
    let world = try WorkerWorld("idle")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let limits = try String(contentsOfFile: "/proc/\(worker.child.pid)/limits", encoding: .utf8)
    let files = try #require(limits.split(separator: "\n").first { $0.hasPrefix("Max open files") })
    let words = files.split(separator: " ")
    #expect(words.count >= 5 && words[3] == words[4], "\(files)")
    let idle = try RawSocket(port: world.adminPort)
    let half = try RawSocket(port: world.adminPort)
    half.send(Array("GET /live".utf8))
    for socket in [idle, half] {
      let isClosed = ChildProcess.poll(timeoutMilliseconds: 45_000, everyMilliseconds: 100) { () -> Bool? in
        _ = socket.receive(milliseconds: 10)
        return socket.isAtEnd ? true : nil
      }
      #expect(isClosed == true)
    }
    #expect(world.admin("/livez")?.status == 200)
  }

  /// The apps of credentials are known before the first job, and after a reload.
  @Test func inventedAppsTakeNoLabelOfARealOne() throws {
    let world = try WorkerWorld("labels")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    let wrong = (0..<600).map { world.job("wrong-\($0)").replacing("com.example.app", with: "wrong-\($0)") }
    try world.outside.publish(wrong, exchange: "\(world.prefix).jobs", routingKey: "transactional")
    func waitForMetric(_ line: String) -> Bool {
      ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) {
        world.admin("/metrics")?.body.contains(line) == true ? true : nil
      } == true
    }
    #expect(waitForMetric("app=\"other\",push_type=\"alert\"} 100\n"), "\(worker.log)")
    try world.publishJobs(0..<3)
    #expect(waitForMetric("app=\"com.example.app\",push_type=\"alert\"} 3\n"), "\(worker.log)")
    let text = world.configuration().replacing("[com.example.app]", with: "[com.example.app, com.example.new]")
    try world.folder.write(text, to: "herald.yaml")
    worker.child.signalLeader(SIGHUP)
    #expect(worker.waitForLine("reloaded", "main"), "\(worker.log)")
    try world.publish(world.job("new").replacing("com.example.app", with: "com.example.new"))
    #expect(waitForMetric("app=\"com.example.new\",push_type=\"alert\"} 1\n"), "\(worker.log)")
    #expect(worker.drain(seconds: 20) == 0, "\(worker.log)")
  }

  @Test func probesAndMetrics() throws {
    var options = WorkerWorld.Options()
    options.lanes = 2
    let world = try WorkerWorld("admin", options: options)
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    #expect(world.admin("/livez")?.status == 200)
    #expect(world.admin("/nothing")?.status == 404)
    for path in ["/livez", "/readyz", "/metrics", "/status"] {
      let head = LoopbackHTTP.request("HEAD", path, port: world.adminPort)
      #expect(head?.status == 200 && head?.body.isEmpty == true, "\(path): \(head?.status ?? 0)")
    }
    #expect(worker.log.contains("\"address\":\"127.0.0.1:\(world.adminPort)\""), "\(worker.log)")
    #expect(worker.log.contains("\"credentials\":[\"main\"],\"lanes\":2,"), "\(worker.log)")

    try world.publishJobs(0..<100)
    try world.publish(world.job("gone", token: "dead", number: 1))
    try world.publish(world.job("again", token: "1503", number: 2), routingKey: "bulk")
    try world.publish("not JSON")
    try world.waitForAccepted(101)
    let labels = "environment=\"production\",app=\"com.example.app\",push_type=\"alert\"}"
    let wanted = [
      "herald_outcomes_total{outcome=\"accepted\",\(labels) 101",
      "herald_jobs_received_total{class=\"transactional\"} 102",
      "herald_apns_responses_total{status=\"410\",reason=\"Unregistered\"} 1", "herald_redis_up 1",
      "herald_dead_letters_total{reason=\"invalid\"} 1", "herald_jobs_in_flight 0",
      "herald_rabbitmq_connected{role=\"publisher\"} 2", "herald_rabbitmq_connected{role=\"consumer\"} 2",
      "herald_job_duration_seconds_count 104",
    ]
    var metrics = ""
    let isSettled = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 100) { () -> Bool? in
      metrics = world.admin("/metrics")?.body ?? ""
      return wanted.allSatisfy { text in metrics.contains("\n\(text)\n") } ? true : nil
    }
    #expect(isSettled == true, "\(wanted.filter { !metrics.contains("\n\($0)\n") }) missing in\n\(metrics)")
    for name in Self.promised { #expect(metrics.contains("# TYPE \(name) "), "\(name) is missing") }
    // Labels never name a device.
    #expect(!metrics.contains("dead0000"))

    try showsItsPools(world)

    try world.simulator.setFaults("latency=3000")
    try world.publishJobs(100..<110)
    let isBusy = ChildProcess.poll(timeoutMilliseconds: 10_000, everyMilliseconds: 20) {
      world.admin("/metrics")?.body.contains("herald_apns_streams_in_flight 10\n") == true ? true : nil
    }
    #expect(isBusy == true)
    worker.child.signalLeader(SIGTERM)
    let draining = ChildProcess.poll(timeoutMilliseconds: 2_000, everyMilliseconds: 20) {
      world.admin("/readyz").flatMap { $0.status == 503 ? $0.body : nil }
    }
    #expect(draining?.contains("draining") == true)
    // Until the end: a lane that drained before the others does not count as stalled.
    var answers: Set<Int> = []
    while let answer = world.admin("/livez") { answers.insert(answer.status) }
    #expect(answers == [200])
    #expect(worker.waitForExit(seconds: 10) == 0, "\(worker.log)")
  }

  /// The admin port is taken: the worker says so, and takes no job from running workers.
  @Test func aTakenPortIsFoundBeforeAJobIs() throws {
    let world = try WorkerWorld("taken")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<5)
    let second = try world.startWorker()
    #expect(second.waitForExit(seconds: 20) == 1, "\(second.log)")
    #expect(
      second.log.contains("cannot listen at 127.0.0.1:\(world.adminPort): Address already in use"), "\(second.log)")
    #expect(second.log.contains("admin.port") && !second.log.contains("connected"), "\(second.log)")
    try world.waitForAccepted(5)
    #expect(worker.drain(seconds: 10) == 0, "\(worker.log)")
    #expect(try world.expectAccepted(0..<5) == 0)
  }

  /// APNs refuses the key: probes and metrics show that the credential is paused, and a probe request ends the pause.
  @Test func aPauseIsSeenAndEnds() throws {
    let world = try WorkerWorld("pause")
    try world.simulator.setFaults("share=1,status=403,reason=InvalidProviderToken")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<5)
    let gauge = "herald_apns_paused{credential=\"main\",environment=\"production\"}"
    func waitFor(_ value: Int, seconds: Int) -> Bool {
      ChildProcess.poll(timeoutMilliseconds: seconds * 1000, everyMilliseconds: 100) {
        world.admin("/metrics")?.body.contains("\n\(gauge) \(value)\n") == true ? true : nil
      } ?? false
    }
    #expect(waitFor(1, seconds: 10), "\(worker.log)")
    try world.simulator.clearFaults()
    #expect(waitFor(0, seconds: 40), "\(worker.log)")
    try world.waitForAccepted(5)
    #expect(
      worker.lines.count { $0.contains("APNs refuses the credential (InvalidProviderToken)") } == 1, "\(worker.log)")
    #expect(worker.log.contains("the pause is over"), "\(worker.log)")
    #expect(worker.drain(seconds: 10) == 0, "\(worker.log)")
  }

  /// The pause of wrong device tokens has a name, and a command ends it.
  @Test func pauseHasAName_andIsLifted() throws {
    let world = try WorkerWorld("pauses")
    try world.simulator.setFaults("prefix=00bf,status=400,reason=BadDeviceToken")
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    func job(_ id: String, _ token: String) -> String {
      #"{"id":"\#(id)","app":"com.example.app","push_type":"alert","to":{"token":"\#(token)"},"payload":{"aps":{"alert":"a"}}}"#
    }
    func publish(_ numbers: Range<Int>, _ prefix: String) throws {
      for number in numbers {
        try world.publish(
          job("\(prefix)-\(number)", prefix + Hex.text(number, count: 28)), routingKey: "transactional")
      }
    }
    try publish(0..<245, "00bf")
    let line = "transactional pushes of the topic com.example.app: paused: of the last 200 none was accepted"
    #expect(worker.waitForLine(line, seconds: 30), "\(worker.log)")
    let listed = try world.herald(["pauses", "list", "--json"])
    let pause = try #require(listed.output.split(separator: "\n").first, "\(listed.errors)")
    for part in [
      #""class":"transactional""#, #""credential":"main""#, #""environment":"production""#,
      #""topic":"com.example.app""#,
      "(BadDeviceToken)", #""next_probe_ms":"#, #""since":"#,
    ] {
      #expect(pause.contains(part), "\(pause)")
    }
    #expect(try world.herald(["pauses", "list"]).output.contains("com.example.app"))
    #expect(try world.herald(["pauses", "list", "--topic", "com.example.other"]).output == "nothing is paused\n")
    let other = try world.herald(["pauses", "lift", "--topic", "com.example.other"])
    #expect(other.status == 1 && other.errors.contains("nothing of that is paused"), "\(other.errors)")
    let gauge =
      "herald_apns_pause_start_timestamp_seconds{credential=\"main\",environment=\"production\",topic=\"com.example.app\",class=\"transactional\"}"
    #expect(
      world.admin("/metrics")?.body.contains(gauge) == true, "\(world.admin("/metrics")?.body.suffix(3_000) ?? "")")
    // APNs still refuses, so that it cannot end by itself.
    let lifted = try world.herald(["pauses", "lift", "--credential", "main"])
    #expect(lifted.status == 0 && lifted.output.hasSuffix("lifted\n"), "\(lifted.errors)")
    #expect(worker.waitForLine("the pause is lifted by command", seconds: 10), "\(worker.log)")
    #expect(try world.herald(["pauses", "list"]).output == "nothing is paused\n")
    try publish(0..<20, "00fc")
    try world.waitForAccepted(20)
    #expect(worker.drain(seconds: 10) == 0, "\(worker.log)")
  }

  /// The machine's clock is five minutes behind APNs', and is then set right.
  @Test func aWrongClockIsSeen() throws {
    let world = try WorkerWorld("clock")
    try world.simulator.setClock(secondsAhead: 300)
    let worker = try world.startWorker()
    #expect(world.waitUntilReady(), "\(worker.log)")
    try world.publishJobs(0..<10)
    try world.waitForAccepted(10)
    #expect(worker.waitForLine("this machine's clock is", "s behind APNs'", "check the clocks (NTP)"), "\(worker.log)")
    let skew = world.admin("/metrics")?.body.split(separator: "\n").first {
      $0.hasPrefix("herald_apns_clock_skew_seconds ")
    }
    let seconds = skew.flatMap { $0.split(separator: " ").last }.flatMap { Int($0) } ?? 0
    #expect((297...301).contains(seconds), "\(skew ?? "no clock skew in /metrics")")

    // Every refusal carries APNs' time.
    try world.simulator.setClock(secondsAhead: 0)
    try world.publish(world.job("refused", token: "bad0"))
    #expect(worker.waitForLine("clock agrees with APNs' again"), "\(worker.log)")
    #expect(worker.lines.count { $0.contains("check the clock") } == 1, "\(worker.log)")
    #expect(worker.drain(seconds: 10) == 0, "\(worker.log)")
  }

  /// `/status`, and `herald check --live` for people and programs.
  private func showsItsPools(_ world: WorkerWorld) throws {
    let status = try #require(world.admin("/status"))
    #expect(status.status == 200)
    for text in [
      #""credential":"main""#, #""environment":"production""#, #""kind":"device""#, #""stream_limit":1"#,
      #""tls_failures":0"#, #""consuming":true"#,
    ] { #expect(status.body.contains(text), "\(text) is missing in \(status.body)") }

    let table = try world.herald(["check", "--live"])
    #expect(table.status == 0, "\(table.output)\(table.errors)")
    #expect(table.output.contains("lane 0: consuming") && table.output.contains("lane 1: consuming"))
    #expect(table.output.contains("CREDENTIAL") && table.output.contains(" ready"))
    let json = try world.herald(["check", "--live", "--json"])
    let line = json.output.split(separator: "\n").last ?? ""
    #expect(line.hasPrefix("{") && line.contains(#""pools":["#), "\(line)")
    let other = world.configuration().replacingOccurrences(
      of: "port: \(world.adminPort)", with: "port: \(try LoopbackPort.free())")
    let alone = try world.herald(["check", "--live"], configuration: other)
    #expect(alone.status == 1)
    #expect(alone.output.contains("FAIL worker: no worker answers at 127.0.0.1:"), "\(alone.output)")
  }
}
