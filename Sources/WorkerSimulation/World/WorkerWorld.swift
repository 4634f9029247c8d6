package import APNsSimulator
import Foundation
import PushCore
import PushIO
import PushSettings

/// The shipped workers in one deterministic world: a simulated network, RabbitMQ, Redis and APNs that speak the real bytes, and an
/// auditor. One thread, no clock but the network's: a seed gives the same world, byte for byte.
package final class WorkerWorld {
  /// What the world is made of.
  package struct Settings: Sendable {
    package var workers = 2
    package var lanes = 2
    package var jobs = 200
    package var prefetch = 40
    /// Jobs are published over so long.
    package var productionMilliseconds: Int64 = 5_000
    package var network = SimulatedNetwork.Settings()
    package var rabbitmq = SimulatedRabbitMQ.Faults()
    /// Kinds of faults that happen, drawn anew for each.
    package var faults: [WorkerFault] = []
    package var faultCount = 0
    /// Faults happen for so long, then everything must come to rest.
    package var stormMilliseconds: Int64 = 30_000
    /// After that time something waits for ever.
    package var restMilliseconds: Int64 = 1_800_000

    package init() {}
  }

  package let settings: Settings
  package let network: SimulatedNetwork
  package let rabbitmq: SimulatedRabbitMQ
  package let redis: SimulatedRedis
  package let apns: Simulator
  package private(set) var workers: [SimulatedWorker?] = []
  package let auditor = WorkerAuditor()
  /// FNV-1a over every event of the network.
  package private(set) var traceHash: UInt64 = 0xCBF2_9CE4_8422_2325
  package private(set) var eventCount = 0
  /// What happened, for people, where `keepsTrace`.
  package private(set) var trace: [String] = []
  package var keepsTrace = false

  private var random: SeededRandom
  private let configuration: Configuration
  private let key = SimulatedSigningKey()
  private let apnsWork: any LoopWork
  /// Outlives the work.
  private let apnsLoop: EventLoop
  private let apnsKernel: SimulatedKernel
  private var apnsNext: Int64 = 0
  private var plan = EventQueue<Step>()

  private enum Step {
    case publish(Int)
    case fault
    case end(WorkerFault, UInt64)
    case startWorker(Int)
  }

  private static let unixMillisecondsAtZero: Int64 = 1_796_000_000_000
  private static let rabbitmqPort: UInt16 = 5672
  private static let redisPort: UInt16 = 6379

  package init(seed: UInt64, settings: Settings = Settings()) throws {
    self.settings = settings
    random = SeededRandom(seed: seed)
    network = SimulatedNetwork(seed: random.next(), settings: settings.network)
    var rabbitmqSettings = SimulatedRabbitMQ.Settings()
    rabbitmqSettings.unixSecondsAtZero = WorkerWorld.unixMillisecondsAtZero / 1000
    rabbitmq = SimulatedRabbitMQ(seed: random.next(), settings: rabbitmqSettings, faults: settings.rabbitmq)
    var redisSettings = SimulatedRedisSettings()
    redisSettings.unixMicroseconds = WorkerWorld.unixMillisecondsAtZero * 1000
    redis = SimulatedRedis(settings: redisSettings, seed: random.next())
    network.listen(WorkerWorld.rabbitmqPort, rabbitmq)
    network.listen(WorkerWorld.redisPort, redis)
    apnsKernel = SimulatedKernel(network, wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero)
    var options = SimulatorOptions()
    options.port = 443
    options.managePort = nil
    options.usesTokenPrefixes = false
    options.seed = random.next()
    options.keys = [
      RegisteredKey(team: key.team, key: key.key) { [key] token in
        (try? ProviderTokenSigner(key: key, subject: "").verifier.verify(token)) != nil
      }
    ]
    apns = try Simulator(options)
    apnsLoop = EventLoop(kernel: apnsKernel)
    apnsWork = try apns.work(on: apnsLoop).work
    configuration = try WorkerWorld.configuration(settings, key)
    rabbitmq.observer = { [unowned self] event in
      auditor.happened(event)
      if keepsTrace { note(event.line) }
    }
    network.trace = { [unowned self] in note($0) }
    for index in 0..<settings.workers { workers.append(try makeWorker(index)) }
    for number in 0..<settings.jobs {
      let share = settings.productionMilliseconds * 1_000_000 / Int64(max(1, settings.jobs))
      plan.add(.publish(number), at: network.now + 500_000_000 + share * Int64(number))
    }
    for _ in 0..<settings.faultCount {
      plan.add(.fault, at: network.now + Int64(random.next() % UInt64(settings.stormMilliseconds)) * 1_000_000)
    }
  }

  private static func configuration(_ settings: Settings, _ key: SimulatedSigningKey) throws -> Configuration {
    let text = """
      {"rabbitmq": {"url": "amqp://guest:guest@127.0.0.1:\(rabbitmqPort)/", "prefetch": \(settings.prefetch)},
       "redis": {"url": "redis://127.0.0.1:\(redisPort)"},
       "credentials": [{"name": "main", "team_id": "\(key.team)", "key_id": "\(key.key)", "key_file": "key.p8",
         "environments": ["production"], "apps": ["com.example.app"]}]}
      """
    let file = FileManager.default.temporaryDirectory.appending(path: "herald-world-\(UUID().uuidString).yaml")
    try text.write(to: file, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: file) }
    return try ConfigurationLoader.load(file: file.path)
  }

  private func makeWorker(_ index: Int) throws -> SimulatedWorker {
    try SimulatedWorker(
      name: "w\(index)", network: network, configuration: configuration, laneCount: settings.lanes,
      wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero, key: key, seed: random.next())
  }

  // MARK: - Running

  /// Plays it to its end: everything published, all faults over, all queues empty, or the time for that over.
  package func run() throws {
    let storm = network.now + settings.stormMilliseconds * 1_000_000
    let end = storm + settings.restMilliseconds * 1_000_000
    while network.now < end {
      try turn()
      if network.now >= storm, plan.count == 0, isAtRest { break }
      guard let next = nextEvent else { break }
      network.advance(to: max(network.now, min(next, end)))
      while let step = plan.takeDue(at: network.now) { try take(step) }
    }
    audit()
  }

  private var nextEvent: Int64? {
    var next = min(apnsTurn, workers.reduce(.max) { min($0, $1?.nextTurn ?? .max) })
    if let event = network.nextEvent { next = min(next, event) }
    if let step = plan.earliest { next = min(next, step) }
    return next == .max ? nil : next
  }

  private var apnsTurn: Int64 { apnsKernel.isReady || apnsLoop.isWoken ? network.now : apnsNext }

  private func turn() throws {
    if network.now >= apnsTurn {
      _ = apnsWork.turn()
      apnsNext = apnsLoop.nextTurn(maximumWaitMilliseconds: apnsWork.waitMilliseconds).nanoseconds
      apnsNext = max(apnsNext, network.now + 20_000)
    }
    for worker in workers { worker?.turn() }
  }

  /// Nothing waits anywhere.
  private var isAtRest: Bool {
    auditor.isComplete
      && rabbitmq.queueNames.allSatisfy { name in
        name.hasSuffix(".results.log") || rabbitmq.messageCount(in: name) == 0
      }
  }

  private func audit() {
    for name in rabbitmq.queueNames where !name.hasSuffix(".results.log") && !name.hasSuffix(".dead") {
      let count = rabbitmq.messageCount(in: name)
      if count > 0 { auditor.violations.append("\(count) messages lie in \(name)") }
    }
    let ledger = apns.ledger
    auditor.finish { ledger.acceptances(of: $0) }
  }

  // MARK: - Steps

  private func take(_ step: Step) throws {
    switch step {
    case .publish(let number): publish(number)
    case .fault: try begin()
    case .end(let fault, let argument): end(fault, argument)
    case .startWorker(let index): workers[index] = try makeWorker(index)
    }
  }

  private func publish(_ number: Int) {
    let job = SimulatedJob(number: number, random: &random)
    var properties = RabbitProperties()
    properties.timestamp = UInt64((WorkerWorld.unixMillisecondsAtZero + network.now / 1_000_000) / 1000)
    properties.messageID = Array(job.id.utf8)
    let count = rabbitmq.publish(
      exchange: "push.jobs", routingKey: job.routingKey, properties: properties, body: Array(job.body.utf8),
      now: network.now)
    network.act(rabbitmq)
    guard count > 0 else {
      // No worker has declared the queues yet, or the broker is down: its producer tries again.
      plan.add(.publish(number), at: network.now + 500_000_000)
      return
    }
    auditor.published(job)
  }

  private func pick(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }

  private func begin() throws {
    guard !settings.faults.isEmpty else { return }
    let fault = settings.faults[pick(settings.faults.count)]
    let seconds = Int64(1 + pick(8))
    note("fault \(fault)")
    var argument: UInt64 = 0
    switch fault {
    case .cut:
      if let line = anyLine() { network.cut(line) }
      return
    case .silence:
      guard let line = anyLine() else { return }
      network.silence(line)
      argument = UInt64(line.id.number)
    case .killWorker:
      let index = pick(workers.count)
      workers[index]?.kill()
      workers[index] = nil
      plan.add(.startWorker(index), at: network.now + seconds * 500_000_000)
      return
    case .restartBroker:
      rabbitmq.restart(now: network.now)
      network.act(rabbitmq)
      return
    case .stallRedis: redis.stall()
    case .emptyRedis:
      auditor.storeEmptied()
      redis.flush(now: network.now)
      return
    case .failAPNs:
      argument = UInt64(try apns.add(fault: "share=0.5,status=503,reason=ServiceUnavailable"))
    case .slowAPNs:
      argument = UInt64(try apns.add(fault: "latency=2000-6000"))
    }
    plan.add(.end(fault, argument), at: network.now + seconds * 1_000_000_000)
  }

  private func end(_ fault: WorkerFault, _ argument: UInt64) {
    note("over \(fault)")
    switch fault {
    case .cut, .killWorker, .restartBroker, .emptyRedis: break
    case .silence:
      if let line = network.lines.first(where: { UInt64($0.id.number) == argument }) { network.heal(line) }
    case .stallRedis:
      redis.resume(now: network.now)
      network.act(redis)
    case .failAPNs, .slowAPNs: apns.remove(fault: Int(argument))
    }
  }

  private func anyLine() -> SimulatedLine? {
    network.lines.isEmpty ? nil : network.lines[pick(network.lines.count)]
  }

  // MARK: - Trace

  private func note(_ entry: SimulatedTraceEntry) {
    eventCount += 1
    mix(UInt64(bitPattern: entry.time))
    mix(UInt64(entry.line.number) << 20 | UInt64(entry.port) << 1 | (entry.isToServer ? 1 : 0))
    for byte in entry.name.utf8 { mix(UInt64(byte)) }
    for byte in entry.bytes { mix(UInt64(byte)) }
    if keepsTrace {
      let direction = entry.isToServer ? "→" : "←"
      trace.append("\(entry.time / 1000) µs \(entry.line) \(direction)\(entry.port) \(entry.name) \(entry.bytes.count)")
    }
  }

  private func note(_ text: String) {
    if keepsTrace { trace.append("\(network.now / 1000) µs \(text)") }
  }

  private func mix(_ value: UInt64) {
    traceHash = (traceHash ^ value) &* 0x100_0000_01B3
  }
}

/// What goes wrong in a world.
package enum WorkerFault: String, CaseIterable, Sendable {
  /// A connection breaks.
  case cut
  /// Nothing arrives on a connection for a while.
  case silence
  /// A worker dies, and is started again.
  case killWorker
  case restartBroker
  /// Redis answers nothing for a while.
  case stallRedis
  /// Redis loses everything.
  case emptyRedis
  /// APNs answers 503 now and then, for a while.
  case failAPNs
  /// APNs takes seconds to answer, for a while.
  case slowAPNs
}
