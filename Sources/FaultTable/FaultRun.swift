import APNsSimulator
import Foundation
import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings

/// One run of a row: a lane with a paced broker and a memory of its own, against a strict simulator over TLS.
package final class FaultRun {
  private typealias FaultLane = Lane<PacedBroker, MemoryAdmissionStore, APNsPushService, FaultClock>

  private struct FaultClock: LaneClock {
    let loop: EventLoop
    var now: Now { loop.now }
  }

  private enum Phase {
    case before, fault, after, ending
  }

  private static let prefetch = 2_000

  private let row: FaultRow
  private let scale: FaultScale
  private let folder: String
  private let simulator: Simulator
  private let loop: EventLoop
  private var lane: FaultLane
  private var phase = Phase.before
  /// Lines for the log while the fault lasted.
  private var notices: [String] = []
  private var residentBefore: Int64 = 0
  private var residentMost: Int64 = 0
  private var stallCauses: Set<String> = []
  private var nextLook: Int64 = 0
  private var hasMoreStreams = false
  /// When the fault was really cleared, milliseconds of the run: a busy machine is late.
  private var faultEnd: Int64 = 0

  /// Runs a row.
  package static func run(_ row: FaultRow, _ scale: FaultScale) throws -> FaultResult {
    let run = try FaultRun(row, scale)
    defer { run.end() }
    run.work()
    return run.result()
  }

  private init(_ row: FaultRow, _ scale: FaultScale) throws {
    self.row = row
    self.scale = scale
    folder = FileManager.default.temporaryDirectory.appending(path: "herald-faults-\(UUID().uuidString)").path()
    let keys = try (0..<row.appCount).map { try SimulatorCredential(key: "SIMKEY000\($0)") }
    simulator = try Simulator(try FaultRun.options(row, scale, keys, folder: folder))
    let ports = try simulator.start()
    loop = try EventLoop()
    let push = try FaultRun.service(row, scale, keys, ports, loop: loop, folder: folder)
    let settings = LaneSettings(
      workerName: "faults/0", prefetch: FaultRun.prefetch,
      retry: RetryPolicy(delaysSeconds: scale.retryDelaysSeconds, attemptsMaximum: 6), onLimit: .delay,
      drainTimeoutMilliseconds: 1_000, randomSeed: 1)
    let loop = loop
    let broker = PacedBroker(rate: scale.rate, prefetch: FaultRun.prefetch / 2, appCount: row.appCount) { loop.now }
    lane = FaultLane(
      broker: broker, state: MemoryAdmissionStore(settings: AdmissionMemory.Settings()), push: push,
      clock: FaultClock(loop: loop), settings: settings)
  }

  private static func options(
    _ row: FaultRow, _ scale: FaultScale, _ keys: [SimulatorCredential], folder: String
  ) throws -> SimulatorOptions {
    var options = SimulatorOptions()
    options.managePort = nil
    options.security = .ownAuthority(folder: folder)
    options.keys = try keys.map { try $0.registration() }
    options.faults = [try FaultRule("latency=\(scale.latencyMilliseconds)")]
    options.ledgerBounds.entriesMaximum = 0
    options.ledgerBounds.notificationsMaximum = 0
    // Until a second before the fault, the load needs both connections.
    if row == .blackHole { options.maximumStreams = max(1, scale.streamsNeeded / 2) }
    return options
  }

  private static func service(
    _ row: FaultRow, _ scale: FaultScale, _ keys: [SimulatorCredential], _ ports: SimulatorPorts, loop: EventLoop,
    folder: String
  ) throws -> APNsPushService {
    let configurations = try keys.enumerated().map { index, key in
      CredentialConfiguration(
        name: "credential-\(index)",
        kind: .token(teamID: key.team, keyID: key.key, keyFile: try key.write(to: "\(folder)/\(index)")),
        environments: [.production], apps: [PacedBroker.apps[index]])
    }
    let host = APNsHost(host: "127.0.0.1", port: ports.port)
    var configuration = APNsPushServiceConfiguration(
      production: host, sandbox: host, broadcastProduction: host, broadcastSandbox: host)
    configuration.connectionsMaximum = row.connectionsMaximum
    configuration.requestTimeoutMilliseconds = scale.requestTimeoutMilliseconds
    configuration.timing.watch(requestTimeoutMilliseconds: scale.requestTimeoutMilliseconds)
    let credentials = try Credentials(configurations, caFile: ports.authorityFile)
    return APNsPushService(loop: loop, credentials: credentials, configuration: configuration, seed: 1)
  }

  private func end() {
    simulator.stop()
    try? FileManager.default.removeItem(atPath: folder)
  }

  // MARK: - The run

  private func work() {
    let lastOffer = scale.beforeMilliseconds + scale.faultMilliseconds + scale.afterMilliseconds
    while !lane.broker.isDone, lane.broker.elapsedMilliseconds < lastOffer + scale.patienceMilliseconds {
      loop.poll(maximumWaitMilliseconds: 1)
      lane.turn()
      loop.flush()
      while let notice = lane.push.takeNotice() {
        if phase == .fault { notices.append(notice.text) }
      }
      let elapsed = lane.broker.elapsedMilliseconds
      advance(elapsed)
      if elapsed >= nextLook {
        nextLook = elapsed + 100
        look()
      }
    }
  }

  private func advance(_ elapsed: Int64) {
    switch phase {
    case .before where row == .blackHole && !hasMoreStreams && elapsed >= scale.beforeMilliseconds - 1_000:
      // From now on one connection can carry the whole load, even if a busy machine makes every answer late.
      hasMoreStreams = true
      simulator.act(.changeStreamLimits(.init(values: [scale.streamsNeeded * 10])))
    case .before where elapsed >= scale.beforeMilliseconds:
      phase = .fault
      residentBefore = ProcessUsage.residentBytes ?? 0
      begin()
    case .fault where elapsed >= scale.beforeMilliseconds + scale.faultMilliseconds:
      phase = .after
      faultEnd = elapsed
      simulator.removeAllFaults()
      _ = try? simulator.add(fault: "latency=\(scale.latencyMilliseconds)")
      if row == .streams { simulator.act(.changeStreamLimits(.init(values: [1000]))) }
      if row == .window { simulator.act(.dropConnections) }
    case .after where elapsed >= scale.beforeMilliseconds + scale.faultMilliseconds + scale.afterMilliseconds:
      phase = .ending
      lane.broker.stopOffering()
    case .before, .fault, .after, .ending:
      break
    }
  }

  private func begin() {
    for fault in row.faults(scale: scale) {
      guard (try? simulator.add(fault: fault)) != nil else { preconditionFailure("a fault of ours: \(fault)") }
    }
    switch row {
    case .streams: simulator.act(.changeStreamLimits(.init(values: [1])))
    case .handshake: simulator.act(.dropConnections)
    case .none, .goAway, .refusedSome, .refusedHalf, .cut, .blackHole, .unavailable, .window: break
    }
  }

  private func look() {
    guard phase == .fault else { return }
    residentMost = max(residentMost, ProcessUsage.residentBytes ?? 0)
    for pool in lane.push.poolSnapshots(now: loop.now) {
      if let cause = pool.stallCause { stallCauses.insert(cause.rawValue) }
    }
  }

  // MARK: - What it showed

  private func result() -> FaultResult {
    var result = FaultResult(row: row)
    let broker = lane.broker
    let audit = FaultAudit(records: broker.records, ledger: simulator.ledger)
    result.add("offered", Double(broker.offered), "jobs")
    result.add("lost", Double(audit.lost), "jobs")
    result.add("accepted twice", Double(audit.twice), "jobs")
    result.add("of them unmarked", Double(audit.twiceUnmarked), "jobs")
    result.add("ambiguous", Double(audit.ambiguous), "jobs")
    let end = scale.beforeMilliseconds + scale.faultMilliseconds
    let during = rate(from: scale.beforeMilliseconds, to: end)
    result.add("rate before", rate(from: scale.beforeMilliseconds / 2, to: scale.beforeMilliseconds), "jobs/s")
    result.add("rate during", during, "jobs/s")
    for (name, part) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
      result.add(
        "\(name) before", percentile(part, from: scale.beforeMilliseconds / 2, to: scale.beforeMilliseconds), "ms")
      result.add("\(name) during", percentile(part, from: scale.beforeMilliseconds, to: end), "ms")
    }
    result.add("connections", Double(lane.push.counters.connectionsOpened))
    result.require(audit.lost == 0, "\(audit.lost) jobs were lost")
    result.require(audit.reportedTwice == 0, "\(audit.reportedTwice) jobs had more than one outcome")
    result.require(audit.twiceUnmarked == 0, "\(audit.twiceUnmarked) jobs were accepted twice and not marked ambiguous")
    result.require(audit.overLimit == 0, "\(audit.overLimit) streams were opened above the limit")
    judge(audit, during, end: end, &result)
    return result
  }

  private func judge(_ audit: FaultAudit, _ during: Double, end: Int64, _ result: inout FaultResult) {
    switch row {
    case .none:
      result.require(audit.twice == 0, "\(audit.twice) jobs were accepted twice")
    case .goAway:
      result.require(audit.twice == 0, "\(audit.twice) jobs were accepted twice")
      result.aim(during >= scale.rate * 0.8, "only \(Int(during)) jobs/s of \(Int(scale.rate))")
    case .refusedSome, .refusedHalf:
      result.require(audit.twice == 0, "\(audit.twice) jobs were accepted twice")
    case .cut:
      result.require(audit.ambiguous > 0, "no connection was cut with a request on it")
    case .streams, .unavailable:
      let recovered = recovery(after: end)
      result.add("full rate again after", recovered ?? -1, "s")
      let allowed = row == .streams ? 2.0 : 5.0
      result.aim(recovered.map { $0 <= allowed } ?? false, "no full rate within \(allowed) s of the fault's end")
      guard row == .unavailable else { break }
      result.add("attempts, most", Double(audit.attemptsMost))
      result.require(audit.attemptsMost <= 6, "\(audit.attemptsMost) attempts for one job")
      judgeTheOther(end: end, &result)
    case .blackHole:
      let allowed = Float(scale.requestTimeoutMilliseconds + 2_000)
      result.add("slowest job", Double(audit.slowest), "ms")
      result.aim(audit.slowest <= allowed, "a job took \(Int(audit.slowest)) ms, more than \(Int(allowed))")
      result.require(audit.ambiguous > 0, "nothing was on the connection that went silent")
      let p90 = percentile(0.90, from: scale.beforeMilliseconds, to: end)
      result.aim(p90 < 500, "the other connection was disturbed: p90 \(Int(p90)) ms")
    case .window:
      let growth = Double(residentMost - residentBefore) / 1_048_576
      result.add("memory growth", growth, "MiB")
      result.aim(growth < 16, "memory grew by \(Int(growth)) MiB")
      result.require(stallCauses.contains("no_window"), "the stall's cause was not reported: \(stallCauses.sorted())")
    case .handshake:
      let attempts = simulator.readLedger { $0.handshakesRefused }
      let seconds = Double(faultEnd - scale.beforeMilliseconds) / 1000
      result.add("attempts", Double(attempts))
      result.add("log lines", Double(notices.count))
      result.require(Double(attempts) <= seconds + 1, "\(attempts) attempts in \(seconds) s")
      result.require(attempts > 0, "no attempt")
      result.require(notices.count <= 4, "\(notices.count) log lines: \(notices)")
    }
  }

  /// The credential without a fault: the median of its p99 of each second. One second in which the
  /// machine was busy with something else counts only once.
  private func judgeTheOther(end: Int64, _ result: inout FaultResult) {
    let start = scale.beforeMilliseconds / 3
    let before = typicalPercentile(0.99, from: start, to: scale.beforeMilliseconds, app: 1)
    let during = typicalPercentile(0.99, from: scale.beforeMilliseconds, to: end, app: 1)
    result.add("the other's p99 before", before, "ms")
    result.add("the other's p99 during", during, "ms")
    result.add(
      "the other's p99 before, all seconds", percentile(0.99, from: start, to: scale.beforeMilliseconds, app: 1), "ms")
    result.add(
      "the other's p99 during, all seconds", percentile(0.99, from: scale.beforeMilliseconds, to: end, app: 1), "ms")
    result.aim(
      during <= before * 1.1,
      "the other credential was disturbed: p99 \(during) ms after \(before) ms, more than 1.1 times")
  }

  /// The median of a percentile of each second in a span of the run.
  private func typicalPercentile(_ part: Double, from start: Int64, to end: Int64, app: Int) -> Double {
    let seconds = stride(from: start, to: end - 999, by: 1_000).map {
      percentile(part, from: $0, to: $0 + 1_000, app: app)
    }
    return seconds.isEmpty ? 0 : seconds.sorted()[seconds.count / 2]
  }

  /// Accepted outcomes a second, in a span of the run.
  private func rate(from start: Int64, to end: Int64) -> Double {
    var count = 0
    for tenths in lane.broker.acceptedPerTenth {
      for tenth in Int(start / 100)..<Int(end / 100) where tenth < tenths.count { count += tenths[tenth] }
    }
    return Double(count) / Double(end - start) * 1000
  }

  /// Seconds from `start` until a whole second had 95 % of the offered rate, new jobs of the first app; nil: never.
  private func recovery(after start: Int64) -> Double? {
    let tenths = lane.broker.acceptedPerTenth[0]
    let wanted = scale.rate / Double(row.appCount) * 0.9
    let first = Int(start / 100)
    guard first + 10 <= tenths.count else { return nil }
    for tenth in first...(tenths.count - 10) where Double(tenths[tenth..<tenth + 10].reduce(0, +)) >= wanted {
      return Double(tenth - first) / 10
    }
    return nil
  }

  /// The latency of jobs that were due in a span of the run.
  private func percentile(_ part: Double, from start: Int64, to end: Int64, app: Int? = nil) -> Double {
    let broker = lane.broker
    var latencies: [Float] = []
    for number in broker.records.indices {
      let due = broker.dueMilliseconds(of: number)
      guard due >= Double(start), due < Double(end), app == nil || broker.app(of: number) == app else { continue }
      latencies.append(broker.records[number].latencyMilliseconds)
    }
    guard !latencies.isEmpty else { return 0 }
    latencies.sort()
    return Double(latencies[min(latencies.count - 1, Int(Double(latencies.count) * part))])
  }
}
