package import APNsSimulator
import Foundation
import PushCore
import PushIO
import PushSettings

/// Runs the shipped workers in a deterministic world: a simulated network, simulated servers (RabbitMQ, Redis, APNs) that speak the real
/// protocols, and auditors. One thread; the only clock is the network's. The same seed gives the same world, byte for byte.
package final class WorkerWorld {
  package let plan: WorkerPlan
  package let network: SimulatedNetwork
  package let rabbitmq: SimulatedRabbitMQ
  package let redis: [SimulatedRedis]
  let cluster: SimulatedRedisCluster?
  let sentinels: [SimulatedSentinel]
  package let apns: Simulator
  package var workers: [SimulatedWorker?] = []
  package let auditor: WorkerAuditor
  package let channelUsers = SimulatedChannelUsers()
  package let audiences: AudienceAuditor
  /// Of the second app; nil: there is none.
  package let otherAudiences: AudienceAuditor?
  package let forgeries = ForgeryAuditor()
  package let fairness: FairnessAuditor
  /// Workers that a channel request crashed.
  package private(set) var poisonedCount = 0
  /// Messages that the broker gave up.
  package private(set) var undeliveredCount = 0
  /// FNV-1a over every event of the network.
  package private(set) var traceHash: UInt64 = 0xCBF2_9CE4_8422_2325
  package private(set) var eventCount = 0
  /// Readable lines of what happened; empty without `keepsTrace`.
  package private(set) var trace: [String] = []
  package var keepsTrace = false

  private var random: SeededRandom
  private let configurations: [Configuration]
  private let key = SimulatedSigningKey()
  private let apnsWork: any LoopWork
  /// Outlives the work.
  private let apnsLoop: EventLoop
  private let apnsKernel: SimulatedKernel
  private var apnsNext: Int64 = 0
  /// The number of what is wrong with the tenant's APNs; nil: nothing, or it is not there.
  var troubleFault: Int?
  static let fullQueue = "analyst.stuck"
  private var agenda = EventQueue<Step>()
  private var turnCount = 0
  /// When the faults end.
  private let stormEnd: Int64
  /// nil: nobody runs commands.
  var operators: SimulatedOperator?

  enum Step {
    case publish(Int)
    case askForChannel(Int)
    case broadcast(Int)
    case audience(Int)
    case forge(Int)
    case fault(Int)
    case end(Int, UInt64)
    case startWorker(Int)
    /// The message that was delivered on this connection ends its holder.
    case endHolder(SimulatedConnectionID)
    /// The faults end.
    case calm
    case operate(Operation)
    case putSegments
    /// Checks that a draining worker has ended.
    case expectEnded(Int, SimulatedWorker)
  }

  var settings: Settings { plan.settings }
  static let unixMillisecondsAtZero: Int64 = 1_796_000_000_000
  static func unixMilliseconds(at nanoseconds: Int64) -> Int64 { unixMillisecondsAtZero + nanoseconds / 1_000_000 }
  static let rabbitmqPort: UInt16 = 5672
  static let redisPort: UInt16 = 6379
  static let sentinelPort: UInt16 = 26379
  static let primaryName = "main"
  /// APNs' channel management.
  static let managePort: UInt16 = 2196
  static let productionPort: UInt16 = 443
  /// The same APNs, for the tenant that may be in trouble.
  static let sandboxPort: UInt16 = 444
  /// Versions of the configuration: two to start workers with, and a third for reloads.
  private static let versions = 3
  /// More events than this are a violation: work causes more work without end.
  private static let eventMaximum = 2_000_000
  /// More turns than this are a violation: the world goes on without events.
  private static let turnMaximum = 20_000_000
  /// Maximum jump of Redis' clock.
  static let jumpNanosecondsMaximum: Int64 = 300_000_000_000
  /// An older job expires.
  static let ageMaximumSeconds: Int64 = 300
  /// The version of the configuration that overrides a rate.
  static let overridesVersion = 2
  /// Time until an ended worker is started again.
  static let absenceNanoseconds: Int64 = 500_000_000
  /// Time after which a new worker has jobs and waits for a Redis that does not answer.
  static let earlyNanoseconds: ClosedRange<Int64> = 400_000_000...1_600_000_000
  /// Time after which a worker has applied a reload.
  static let reloadNanoseconds: Int64 = 50_000_000

  package convenience init(seed: UInt64, settings: Settings = Settings()) throws {
    try self.init(WorkerPlan(seed: seed, settings: settings))
  }

  package init(_ plan: WorkerPlan) throws {
    self.plan = plan
    let settings = plan.settings
    random = SeededRandom(seed: plan.seed)
    network = SimulatedNetwork(seed: random.next(), settings: settings.network)
    auditor = WorkerAuditor(faults: Set(plan.faults.compactMap { $0?.kind }), settings)
    let faults = Set(plan.faults.compactMap { $0?.kind })
    fairness = FairnessAuditor(prefetch: settings.prefetch)
    audiences = AudienceAuditor(.first, faults: faults)
    otherAudiences = settings.hasSecondApp ? AudienceAuditor(.second, faults: faults) : nil
    var rabbitmqSettings = SimulatedRabbitMQ.Settings()
    rabbitmqSettings.unixSecondsAtZero = WorkerWorld.unixMillisecondsAtZero / 1000
    rabbitmq = SimulatedRabbitMQ(seed: random.next(), settings: rabbitmqSettings, faults: settings.rabbitmq)
    let redisSettings = (0..<UInt16(settings.hasSentinels ? 2 : settings.redisNodes)).map { node in
      var redisSettings = SimulatedRedisSettings()
      redisSettings.host = "127.0.0.1"
      redisSettings.port = WorkerWorld.redisPort + node
      redisSettings.unixMicroseconds = WorkerWorld.unixMillisecondsAtZero * 1000
      return redisSettings
    }
    let redisSeed = random.next()
    let cluster =
      settings.redisNodes > 1
      ? SimulatedRedisCluster(settings: redisSettings, masterCount: settings.redisNodes, seed: redisSeed) : nil
    self.cluster = cluster
    redis =
      cluster?.nodes ?? redisSettings.enumerated().map { SimulatedRedis(settings: $1, seed: redisSeed &+ UInt64($0)) }
    for node in redis { node.jumpClock(byMicroseconds: settings.redisErrorMilliseconds * 1_000) }
    if settings.hasSentinels { redis[1].follow(redis[0]) }
    sentinels = (0..<(settings.hasSentinels ? 2 : 0)).map { number in
      SimulatedSentinel([WorkerWorld.primary(redisSettings[0])], seed: redisSeed &+ 16 + UInt64(number))
    }
    stormEnd = network.now + settings.stormMilliseconds * 1_000_000
    network.listen(WorkerWorld.rabbitmqPort, rabbitmq)
    for node in redis { network.listen(node.settings.port, node) }
    for (number, sentinel) in sentinels.enumerated() {
      network.listen(WorkerWorld.sentinelPort + UInt16(number), sentinel)
    }
    apnsKernel = SimulatedKernel(network, wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero)
    var options = SimulatorOptions()
    options.port = WorkerWorld.productionPort
    options.managePort = WorkerWorld.managePort
    options.seed = random.next()
    // The auditor reads all notifications.
    if settings.audienceDevices > 0 { options.ledgerBounds.notificationsMaximum = 20_000 }
    options.keys = [
      RegisteredKey(team: key.team, key: key.key) { [key] token in
        (try? ProviderTokenSigner(key: key, subject: "").verifier.verify(token)) != nil
      }
    ]
    apns = try Simulator(options)
    apnsLoop = EventLoop(kernel: apnsKernel)
    apnsWork = try apns.work(on: apnsLoop).work
    network.listen(WorkerWorld.sandboxPort, likeOn: WorkerWorld.productionPort)
    configurations = try (0..<WorkerWorld.versions).map { [key] version in
      try WorkerWorld.configuration(settings, key, version: version)
    }
    rabbitmq.observer = { [unowned self] event in
      let now = WorkerWorld.unixMillisecondsAtZero + network.now / 1_000_000
      auditor.checkLifetime(event)
      if case .stored("push.undelivered", _) = event { undeliveredCount += 1 }
      if settings.forgedMessages > 0, forgeries.observe(event) { return }
      fairness.observe(event, at: network.now)
      if !channelUsers.observe(event, at: network.now), !audiences.observe(event, unixMilliseconds: now),
        otherAudiences?.observe(event, unixMilliseconds: now) != true
      {
        auditor.observe(event, unixMilliseconds: now)
      }
      if keepsTrace { note(event.line) }
      if settings.firstJobEnds != nil, case .delivered(let queue, let message, let delivery) = event,
        queue == "push.jobs.transactional" || queue == "push.jobs.bulk",
        WorkerAuditor.text("id", in: message.body) == plan.jobs[0]?.job.id
      {
        agenda.add(.endHolder(delivery.connection), at: network.now)
      }
    }
    network.trace = { [unowned self] in note($0) }
    auditor.expectRates(
      Set(configurations.flatMap { $0.limits.rates.rules.compactMap(\.limit) }),
      hasBroadcasts: settings.broadcasts > 0 || settings.channelAbove != nil || settings.forgedMessages > 0)
    for node in redis {
      node.observe = { [unowned self] observation in
        auditor.observe(observation)
        if keepsTrace, let line = observation.line { note(line) }
        if settings.hasChannelPoison { poison(observation) }
      }
    }
    for sentinel in sentinels {
      sentinel.observe = { [unowned self] in auditor.observe($0) }
    }
    for index in 0..<settings.workers { workers.append(try makeWorker(index, version: 0)) }
    for (number, job) in plan.jobs.enumerated() { if let job { agenda.add(.publish(number), at: job.at) } }
    let production = settings.productionMilliseconds * 1_000_000
    for number in 0..<settings.channelRequests {
      agenda.add(.askForChannel(number), at: network.now + production / Int64(settings.channelRequests) * Int64(number))
    }
    for number in 0..<settings.broadcasts {
      let share = production / 2 / Int64(settings.broadcasts)
      agenda.add(.broadcast(number), at: network.now + production / 2 + share * Int64(number))
    }
    for (number, event) in plan.audiences.enumerated() { if let event { agenda.add(.audience(number), at: event.at) } }
    for number in 0..<settings.forgedMessages {
      agenda.add(.forge(number), at: network.now + production / Int64(settings.forgedMessages) * Int64(number))
    }
    for (number, fault) in plan.faults.enumerated() { if let fault { agenda.add(.fault(number), at: fault.at) } }
    if settings.audienceDevices > 0 { putSegments() }
    try scheduleCommands(configurations[0], key)
    if let trouble = settings.trouble { try begin(trouble) }
  }

  /// Breaks the reference cycles of sockets and connections. Without this, a process that runs many worlds would keep them all in memory.
  deinit {
    for worker in workers { worker?.kill() }
    apnsKernel.kill()
    network.refuse(WorkerWorld.sandboxPort)
  }

  private static func configuration(
    _ settings: Settings, _ key: SimulatedSigningKey, version: Int
  ) throws -> Configuration {
    let redis =
      if settings.hasSentinels {
        "redis-sentinel://127.0.0.1:\(sentinelPort),127.0.0.1:\(sentinelPort + 1)/\(primaryName)"
      } else {
        (settings.redisNodes > 1 ? "redis-cluster://" : "redis://")
          + (0..<settings.redisNodes).map { "127.0.0.1:\(Int(redisPort) + $0)" }.joined(separator: ",")
      }
    let stuckCredential = """
      , {"name": "stuck", "team_id": "\(key.team)", "key_id": "\(key.key)", "key_file": "key.p8", "environments": ["sandbox"],
         "apps": ["\(SimulatedJob.stuckApp)"]}
      """
    let text = """
      {"rabbitmq": {"url": "amqp://guest:guest@127.0.0.1:\(rabbitmqPort)/", "prefetch": \(settings.prefetch)},
       "redis": {"url": "\(redis)"},
       \(settings.channelAbove.map { "\"activities\": {\"channel_above\": \($0)}," } ?? "")
       "retry": {"delays_s": \([[1, 5, 30], [1, 5, 20, 60], [1, 5, 30]][version]), "attempts_max": 4,
        "age_max_s": \(WorkerWorld.ageMaximumSeconds)},
       "apns": {"request_timeout_ms": \([10_000, 4_000, 10_000][version])},
       "limits": {"per_device_burst": \([10, 5, 2][version]),
         "overrides": \(version == overridesVersion ? "[\"com.example.app/alert=3:2\"]" : "[]")},
       "credentials": [{"name": "main", "team_id": "\(key.team)", "key_id": "\(key.key)", "key_file": "key.p8",
         "environments": ["production"], "apps": ["com.example.app", "\(SimulatedJob.campaignApp)"]}\(settings.trouble == nil ? "" : stuckCredential)]}
      """
    let file = FileManager.default.temporaryDirectory.appending(path: "herald-world-\(UUID().uuidString).yaml")
    try text.write(to: file, atomically: true, encoding: .utf8)
    defer { try? FileManager.default.removeItem(at: file) }
    return try ConfigurationLoader.load(file: file.path)
  }

  static func primary(_ node: SimulatedRedisSettings) -> SimulatedSentinel.Primary {
    SimulatedSentinel.Primary(name: primaryName, host: node.host, port: node.port)
  }

  func makeWorker(_ index: Int, version: Int) throws -> SimulatedWorker {
    try SimulatedWorker(
      name: "w\(index)", network: network, configuration: configurations[version], laneCount: settings.lanes,
      untilEmpty: settings.worksUntilEmpty && index == 0, hasAudiences: settings.audienceDevices > 0,
      wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero + (index == 1 ? settings.clockErrorMilliseconds : 0),
      key: key, seed: random.next())
  }

  // MARK: - Running

  /// Runs the world until everything is published, all faults are over and all queues are empty, or until the time for that is over. Then
  /// audits it.
  package func run() throws {
    // If Redis' clock was set back, what waits for a time by that clock waits longer. A channel request waits for an hour at most.
    let jumps = plan.faults.count { $0?.kind == .jumpRedisClock }
    var end = stormEnd + settings.restMilliseconds * 1_000_000 + Int64(jumps) * WorkerWorld.jumpNanosecondsMaximum
    if settings.channelRequests > 0 || settings.channelAbove != nil { end += 3_600_000_000_000 }
    agenda.add(.calm, at: stormEnd)
    while network.now < end, !isEndless {
      turn()
      if network.now >= stormEnd, agenda.count == 0, isAtRest { break }
      guard nextEvent != nil else { break }
      try pass(until: end)
    }
    audit()
  }

  /// Plays on until then, or until a socket of an operator's command is ready.
  func goOn(until end: Int64, orReady kernel: SimulatedKernel) {
    while network.now < end, !kernel.isReady, !isEndless {
      turn()
      do { try pass(until: end) } catch { auditor.violations.append("the world ended by itself: \(error)") }
    }
    // A command waits for an answer for a bounded time.
    if isEndless { network.advance(to: max(network.now, end)) }
  }

  /// Lets time pass until the next event, at most until then.
  private func pass(until end: Int64) throws {
    network.advance(to: max(network.now, min(nextEvent ?? end, end)))
    while let step = agenda.takeDue(at: network.now) { try take(step) }
  }

  private var isEndless: Bool { eventCount >= WorkerWorld.eventMaximum || turnCount >= WorkerWorld.turnMaximum }

  private var nextEvent: Int64? {
    var next = min(apnsTurn, workers.reduce(.max) { min($0, $1?.nextTurn ?? .max) })
    if let event = network.nextEvent { next = min(next, event) }
    if let step = agenda.earliest { next = min(next, step) }
    return next == .max ? nil : next
  }

  private var apnsTurn: Int64 { apnsKernel.isReady || apnsLoop.isWoken ? network.now : apnsNext }

  private func turn() {
    turnCount += 1
    if network.now >= apnsTurn {
      _ = apnsWork.turn()
      apnsNext = apnsLoop.nextTurn(maximumWaitMilliseconds: apnsWork.waitMilliseconds).nanoseconds
      apnsNext = max(apnsNext, network.now + 20_000)
    }
    for index in workers.indices {
      guard let worker = workers[index] else { continue }
      worker.turn()
      if let contradiction = worker.takeContradiction() { auditor.violations.append(contradiction) }
      if worker.isDead {
        note("killed \(worker.name)")
        worker.kill()
        retire(index, after: worker.absenceNanoseconds)
      } else if worker.isOver {
        if worker.endedByItself { forgeries.endedByItself(worker) }
        retire(index)
      }
    }
  }

  /// No work is left.
  private var isAtRest: Bool {
    auditor.isComplete && channelUsers.isComplete && audiences.isComplete && otherAudiences?.isComplete != false
      && rabbitmq.isEmpty(besides: WorkerWorld.isKept)
  }

  /// Messages in this queue stay there: no worker consumes it.
  private static func isKept(_ queue: String) -> Bool { queue.hasSuffix(".results.log") || queue.hasSuffix(".dead") }

  private func audit() {
    if isEndless {
      auditor.violations.append("work that causes more work without end")
    }
    for index in workers.indices where workers[index] != nil { ended(workers[index]!) }
    for name in rabbitmq.queueNames where !WorkerWorld.isKept(name) {
      let count = rabbitmq.messageCount(in: name)
      if count > 0 { auditor.violations.append("\(count) messages remain in \(name)") }
    }
    let ledger = apns.ledger
    if settings.forgedMessages == 0 {
      auditor.violations += audiences.finish(ledger) + (otherAudiences?.finish(ledger) ?? [])
      auditor.finish(
        ledger, elsewhere: audiences.apnsIDs(ledger).union(otherAudiences?.apnsIDs(ledger) ?? []))
    } else {
      // What is forged may name devices and activities of others.
      auditor.finish(ledger, elsewhere: forgeries.apnsIDs(ledger))
    }
    auditor.violations += forgeries.violations + fairness.finish()
    // If a worker's clock is wrong or APNs does not know the key, APNs refuses its provider tokens for a while. If Redis evicted a channel
    // but not its name, the name waits for an operator.
    auditor.violations += channelUsers.violations(
      atAPNs: apns.channels(of: SimulatedChannelUsers.app),
      mayBeRefused: hasFault(of: [.setClock, .evictRedis, .revokeKey]))
    if keepsTrace { traceRequests() }
  }

  /// Adds APNs' requests and answers to the trace, in order of time.
  private func traceRequests() {
    var lines = trace.map { (at: Int64($0.prefix { $0 != " " }) ?? 0, text: $0) }
    for entry in apns.ledger.entries {
      let at = (entry.receivedAt - WorkerWorld.unixMillisecondsAtZero) * 1000
      let reason = entry.reason.map { " \($0)" } ?? ""
      lines.append(
        (at, "\(at) µs apns \(entry.ending.rawValue) \(entry.status)\(reason): job \(entry.apnsID) for \(entry.target)")
      )
    }
    trace = lines.enumerated().sorted { ($0.element.at, $0.offset) < ($1.element.at, $1.offset) }.map(\.element.text)
  }

  // MARK: - Steps

  func schedule(_ step: Step, at time: Int64) { agenda.add(step, at: time) }

  private func take(_ step: Step) throws {
    switch step {
    case .publish(let number): publish(number)
    case .askForChannel(let number):
      var random = SeededRandom(seed: plan.seed &+ UInt64(number))
      let isAsked = channelUsers.ask(
        number, rabbitmq, isPoison: number == 0 && settings.hasChannelPoison, random: &random, now: network.now)
      network.act(rabbitmq)
      if !isAsked { agenda.add(step, at: network.now + 500_000_000) }
    case .broadcast(let number):
      var random = SeededRandom(seed: plan.seed &+ UInt64(number))
      if let job = channelUsers.broadcast(number, random: &random) {
        publish(job, again: step)
      } else if !channelUsers.isComplete || network.now < stormEnd {
        // If every channel request was refused, no channel exists to send to.
        agenda.add(step, at: network.now + 500_000_000)
      }
    case .audience(let number): publishAudience(number)
    case .forge(let number): forge(number)
    case .fault(let number): try begin(number)
    case .end(let number, let argument): try end(number, argument)
    case .startWorker(let index):
      // Either version: a fleet is upgraded one worker at a time.
      if workers[index] == nil { workers[index] = try makeWorker(index, version: Int(random.next() % 2)) }
    case .endHolder(let connection): endHolder(connection)
    case .operate(let operation): try operate(operation)
    case .putSegments: putSegments()
    case .calm:
      rabbitmq.calm()
      if settings.trouble != nil { endTrouble() }
    case .expectEnded(let index, let worker):
      let end = worker.pausedUntil + SimulatedWorker.drainNanosecondsMaximum
      if workers[index] === worker, worker.pausedUntil > 0, end > network.now {
        agenda.add(step, at: end)
      } else if workers[index] === worker {
        auditor.violations.append("the drain of \(worker.name) does not end")
      }
    }
  }

  private func publish(_ number: Int) {
    if let job = plan.jobs[number]?.job { publish(job, again: .publish(number)) }
  }

  private func publish(_ job: SimulatedJob, again step: Step) {
    var properties = RabbitProperties()
    let unixSeconds = (WorkerWorld.unixMillisecondsAtZero + network.now / 1_000_000) / 1000
    properties.timestamp = UInt64(unixSeconds - job.ageSeconds)
    properties.messageID = Array(job.id.utf8)
    properties.expiration = job.lifetimeMilliseconds.map { Array("\($0)".utf8) }
    let count = rabbitmq.publish(
      exchange: "push.jobs", routingKey: job.routingKey, properties: properties, body: job.body,
      now: network.now)
    network.act(rabbitmq)
    guard count > 0 else {
      // No worker has declared the queues yet, or the broker is down: the producer tries again.
      agenda.add(step, at: network.now + 500_000_000)
      return
    }
    if settings.trouble == .fullResults, network.now < stormEnd { fillResults() }
    fairness.published(job, at: network.now)
    if auditor.published(job), let nanoseconds = job.againAfterNanoseconds {
      agenda.add(step, at: network.now + nanoseconds)
    }
  }

  /// Crashes the worker that begins to carry out the poison request.
  private func poison(_ observation: SimulatedRedisObservation) {
    guard case .script(let call, _) = observation, call.arguments.first == Array(SimulatedChannelUsers.poison.utf8)
    else { return }
    guard let worker = workers.lazy.compactMap({ $0 }).first(where: { $0.owns(call.connection) }) else { return }
    worker.die(afterBytes: 1, absenceNanoseconds: WorkerWorld.absenceNanoseconds)
    poisonedCount += 1
  }

  /// Removes an ended worker and schedules its restart.
  func retire(_ index: Int, after nanoseconds: Int64 = WorkerWorld.absenceNanoseconds) {
    if let worker = workers[index] { ended(worker) }
    workers[index] = nil
    agenda.add(.startWorker(index), at: network.now + nanoseconds)
  }

  /// Reloads a worker with another version of the configuration. The versions differ only in what a reload can change.
  func reload(_ worker: SimulatedWorker, draw: UInt64) throws {
    try worker.reload(configurations[Int(draw % UInt64(WorkerWorld.versions))], key: key)
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

  func note(_ text: @autoclosure () -> String) {
    if keepsTrace { trace.append("\(network.now / 1000) µs \(text())") }
  }

  private func mix(_ value: UInt64) {
    traceHash = (traceHash ^ value) &* 0x100_0000_01B3
  }
}
