import Logging
import PushChannels
import PushCore
import PushCredentials
import PushIO
import PushLane
import PushSettings
package import PushStores

/// One worker process of the simulated world: the shipped lanes, token store and consumers, each on its own loop over simulated sockets.
/// The world runs its turns.
package final class SimulatedWorker {
  /// The work of one thread, and when its next turn is due.
  private final class Thread {
    let work: any LoopWork
    let lane: WorkerLane?
    /// Must outlive the work, like a real thread's loop.
    let loop: EventLoop
    let kernel: SimulatedKernel
    /// When the next turn is due at the latest.
    var next: Int64
    /// The earliest time of the next turn, even if input arrives.
    var earliest: Int64 = 0
    var isOver = false

    /// When the next turn is due, unless more input arrives.
    func due(_ now: Int64) -> Int64 { kernel.isReady || loop.isWoken ? max(now, min(next, earliest)) : next }

    init(work: any LoopWork, loop: EventLoop, kernel: SimulatedKernel, next: Int64) {
      self.work = work
      lane = work as? WorkerLane
      self.loop = loop
      self.kernel = kernel
      self.next = next
    }
  }

  package let name: String
  private var threads: [Thread] = []
  private let network: SimulatedNetwork
  private let controls: [LaneControl]
  private let tokenStore: RedisProviderTokenStore
  private let tokens: ProviderTokens
  private let channels: ChannelConsumer
  /// nil: the world has no audiences.
  private var expansions: ExpansionConsumer?
  private var registrations: RegistrationConsumer?
  private let undelivered: UndeliveredConsumer
  private var credentials: Credentials
  private let wallClockMilliseconds: Int64
  private var isDraining = false
  /// Whether it ends once all its queues are empty.
  private let worksUntilEmpty: Bool
  private let credentialName: String
  private let process = SimulatedProcess()
  /// Time from its death until a new worker replaces it.
  private(set) var absenceNanoseconds: Int64 = 0
  private var contradiction: String?
  private let log: WorkerLog
  /// When its next turn is due; `.max`: never.
  private(set) var nextTurn: Int64
  /// It hangs until then.
  private(set) var pausedUntil: Int64 = 0
  /// Minimum time between two turns of a thread.
  private static let turnNanoseconds: Int64 = 20_000
  /// A drain ends after 25 s; then connections are closed.
  static let drainNanosecondsMaximum: Int64 = 30_000_000_000
  /// The TLS context for `Credentials`, shared by all workers: loading the system's authorities takes longer than a simulated worker runs.
  static let tls = Result { () throws(TLSError) in try TLSContext.client(alpn: ["h2"]) }

  /// Starts the worker.
  /// - Parameters:
  ///   - untilEmpty: it ends once all its queues are empty.
  ///   - hasAudiences: it has a registry of devices, and the consumers that use it.
  ///   - seed: of all its random numbers.
  init(
    name: String, network: SimulatedNetwork, configuration: Configuration, laneCount: Int, untilEmpty: Bool,
    hasAudiences: Bool,
    wallClockMilliseconds: Int64, key: SimulatedSigningKey, seed: UInt64
  ) throws {
    self.name = name
    worksUntilEmpty = untilEmpty
    credentialName = configuration.credentials[0].name
    self.network = network
    nextTurn = network.now
    let log = WorkerLog(name: name, network: network)
    self.log = log
    var random = SeededRandom(seed: seed)
    controls = (0..<laneCount).map { LaneControl(name: "\($0)") }
    tokenStore = RedisProviderTokenStore(
      configuration: try RedisConfiguration(url: configuration.redis.url), tls: nil,
      prefix: configuration.redis.prefix)
    tokens = ProviderTokens(store: tokenStore)
    self.wallClockMilliseconds = wallClockMilliseconds
    credentials = try Credentials(
      configuration.credentials, tokens: tokens, tls: SimulatedWorker.tls.get(), readKey: key.read)
    var parts = try LaneParts(configuration, laneCount: laneCount)
    // The only difference from the shipped worker: no TLS.
    if let production = APNsHost(url: "http://127.0.0.1:\(WorkerWorld.productionPort)"),
      let sandbox = APNsHost(url: "http://127.0.0.1:\(WorkerWorld.sandboxPort)")
    {
      parts.apns.production = production
      parts.apns.broadcastProduction = production
      parts.apns.sandbox = sandbox
    }
    let policies = ChannelPolicyCache()
    let quiet = Logger(label: name) { _ in SwiftLogNoOpLogHandler() }
    channels = ChannelConsumer(
      try SimulatedWorker.channelSettings(configuration, name), cache: policies,
      logger: quiet, untilEmpty: untilEmpty)
    undelivered = UndeliveredConsumer(
      try UndeliveredSettings(configuration, hostName: name), logger: quiet, untilEmpty: untilEmpty)
    let wallClock = WallClock()
    func begin(_ make: (EventLoop) -> any LoopWork) {
      let kernel = SimulatedKernel(network, wallClockMilliseconds: wallClockMilliseconds, process: process)
      let loop = EventLoop(kernel: kernel, wallClock: wallClock)
      threads.append(Thread(work: make(loop), loop: loop, kernel: kernel, next: network.now))
    }
    begin { tokenStore.work(on: $0, seed: random.next()) }
    for (index, control) in controls.enumerated() {
      var settings = LaneSettings(
        workerName: "\(name)/\(index)", prefetch: configuration.rabbitmq.prefetch, retry: configuration.retry,
        onLimit: configuration.limits.onLimit, drainTimeoutMilliseconds: configuration.drainTimeoutMilliseconds,
        randomSeed: random.next())
      settings.unsureMilliseconds = LaneSettings.workersUnsureMilliseconds
      begin { [settings] loop in
        let directory: any AudienceDirectory =
          hasAudiences
          ? RegistryDirectory(
            loop: loop, configuration: parts.registry, tls: nil, prefix: configuration.redis.prefix,
            seed: random.next()) : NoDirectory()
        return WorkerLane(
          loop: loop, control, settings, parts, credentials: credentials, policies: policies, directory: directory,
          standstill: StandstillState.Settings(
            requestTimeoutMilliseconds: Int64(configuration.apns.requestTimeoutMilliseconds)),
          watchesUntilEmpty: untilEmpty
        ) { log.note("\($0.level) lane \(control.name): \($0.text)") }
      }
    }
    begin { loop in
      channels.work(on: loop, credentials: credentials, seed: random.next()) { log.note("\($0) channels: \($1)") }
    }
    begin { [undelivered] loop in
      undelivered.work(on: loop, seed: random.next()) { log.note("\($0) undelivered: \($1)") }
    }
    guard hasAudiences else { return }
    let expansions = ExpansionConsumer(
      try SimulatedWorker.expansionSettings(configuration, name), logger: quiet, untilEmpty: untilEmpty)
    let registrations = RegistrationConsumer(
      try RegistrationConsumerSettings(configuration, hostName: name), logger: quiet, untilEmpty: untilEmpty)
    begin { loop in
      expansions.work(on: loop, seed: random.next()) { log.note("\($0) expansions: \($1)") }
    }
    begin { loop in
      registrations.work(on: loop, seed: random.next()) { log.note("\($0) registrations: \($1)") }
    }
    self.expansions = expansions
    self.registrations = registrations
  }

  /// Small pages and steps, so that few devices need many of them.
  private static func expansionSettings(_ configuration: Configuration, _ name: String) throws -> ExpansionSettings {
    var settings = try ExpansionSettings(configuration, hostName: name)
    settings.pageDevices = 3
    settings.stepDevices = 6
    settings.openPagesMaximum = 4
    return settings
  }

  static func channelSettings(_ configuration: Configuration, _ name: String) throws -> ChannelConsumerSettings {
    var settings = try ChannelConsumerSettings(configuration, hostName: name)
    if let host = APNsHost(url: "http://127.0.0.1:\(WorkerWorld.managePort)") { settings.client.production = host }
    return settings
  }

  /// All its threads have ended.
  var isOver: Bool { threads.allSatisfy(\.isOver) }

  /// It ended, and nobody drained it.
  var endedByItself: Bool { isOver && !isDraining && !isDead }

  /// What SIGTERM does.
  func drain() {
    isDraining = true
    for control in controls { control.drain() }
    channels.drain()
    undelivered.drain()
    expansions?.drain()
    registrations?.drain()
  }

  /// What SIGHUP does.
  func reload(_ configuration: Configuration, key: SimulatedSigningKey) throws {
    credentials = try Credentials(
      configuration.credentials, tokens: tokens, replacing: credentials, tls: SimulatedWorker.tls.get(),
      readKey: key.read)
    for control in controls { control.reload(LaneUpdate(credentials: credentials, limits: configuration.limits)) }
    channels.reload(credentials)
  }

  /// What an operator's command does after the key leaked.
  func revokeCredential() {
    for control in controls { control.revoke(credential: credentialName) }
    channels.revoke(credential: credentialName)
  }

  /// Makes all its threads stand still, as a stopped process or a host without CPU does.
  func pause(until time: Int64) {
    pausedUntil = max(pausedUntil, time)
    nextTurn = pausedUntil
  }

  /// Sets its wall clock this far ahead of the world's.
  func setClock(offsetMilliseconds: Int64) {
    for thread in threads { thread.kernel.wallClockMilliseconds = wallClockMilliseconds + offsetMilliseconds }
  }

  /// The lines that it logged.
  package var logLines: [String] { log.lines }

  /// Whether one of its lanes reported a standstill.
  var stoodStill: Bool { log.stoodStill }

  /// The number of provider tokens that it made itself.
  package var tokensMade: UInt64 { tokens.snapshots().reduce(0) { $0 + $1.refreshes } }

  /// The counters of its channel consumer.
  package var channelCounters: ChannelCounters { channels.counters }

  /// The counters of its consumers for audiences; nil: it has none.
  package var expansionCounters: ExpansionCounters? { expansions?.counters }
  package var registrationCounters: RegistrationCounters? { registrations?.counters }

  /// Returns and clears a contradiction between a lane's tables; nil: there is none.
  func takeContradiction() -> String? {
    defer { contradiction = nil }
    return contradiction
  }

  /// Makes it die after it has written this many more bytes.
  func die(afterBytes count: Int, absenceNanoseconds: Int64) {
    process.die(afterBytes: count)
    self.absenceNanoseconds = absenceNanoseconds
  }

  /// Whether one of its sockets is an end of this connection.
  func owns(_ connection: SimulatedConnectionID) -> Bool { network.line(connection).map(owns) ?? false }

  private func owns(_ line: SimulatedLine) -> Bool {
    guard case .socket(let kernel, _) = line.ends[0].owner else { return false }
    return threads.contains { $0.kernel === kernel }
  }

  /// Its queues are empty, and it processes nothing.
  private var isExhausted: Bool {
    channels.isExhausted && undelivered.isExhausted && expansions?.isExhausted ?? true
      && registrations?.isExhausted ?? true
      && threads.allSatisfy { $0.lane?.isExhausted ?? true }
  }

  /// Its open connections.
  var connections: [SimulatedConnectionID] { network.lines.filter(owns).map(\.id) }

  var isDead: Bool { process.isDead }

  /// Runs the turns that are due now.
  func turn() {
    let now = network.now
    guard now >= pausedUntil else { return }
    var next = Int64.max
    var hasTurned = false
    for index in threads.indices {
      let thread = threads[index]
      if thread.isOver || process.isDead { continue }
      let due = thread.due(now)
      guard due <= now else {
        next = min(next, due)
        continue
      }
      hasTurned = true
      turn(thread, index)
    }
    if worksUntilEmpty, !isDraining, isExhausted { drain() }
    guard hasTurned || isDraining else {
      nextTurn = next
      return
    }
    // The token store stops last, as in the shipped process.
    if isDraining, threads.dropFirst().allSatisfy(\.isOver) { tokenStore.stop() }
    // A turn of one thread may wake another one.
    nextTurn = threads.reduce(.max) { $1.isOver ? $0 : min($0, $1.due(now)) }
  }

  private func turn(_ thread: Thread, _ index: Int) {
    let goesOn = thread.work.turn()
    thread.isOver = !goesOn
    thread.earliest = network.now + SimulatedWorker.turnNanoseconds
    let wanted = thread.loop.nextTurn(maximumWaitMilliseconds: thread.work.waitMilliseconds).nanoseconds
    thread.next = max(wanted, thread.earliest)
    guard let lane = thread.lane else { return }
    if !goesOn { controls[index - 1].end(lane.lastReport) }
    if goesOn, let text = lane.contradiction { contradiction = "\(name)/\(index - 1): \(text)" }
  }

  /// Kills the process: its sockets end as the kernel would end them.
  package func kill() {
    for index in threads.indices {
      threads[index].isOver = true
      threads[index].kernel.kill()
    }
  }
}

/// Signs provider tokens in the simulated world. Its signatures are deterministic; real ones are not.
struct SimulatedSigningKey: SigningKey {
  let team = "SIMTEAM001"
  let key = "SIMKEY0001"

  func sign(_ message: [UInt8]) -> [UInt8]? {
    var state: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in message { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
    var random = SeededRandom(seed: state)
    // 64 bytes, as ES256 has.
    return (0..<8).flatMap { _ in
      let word = random.next()
      return (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) }
    }
  }

  func verify(_ signature: [UInt8], of message: [UInt8]) -> Bool { sign(message) == signature }
  func publicPEM() -> [UInt8] { Array(key.utf8) }
  func privatePEM() -> [UInt8] { Array(key.utf8) }

  /// Replaces reading the key from its file.
  func read(_ file: String) throws(APNsError) -> ProviderTokenSigner { ProviderTokenSigner(key: self, subject: file) }
}
