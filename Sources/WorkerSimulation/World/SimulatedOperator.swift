import Logging
import PushCore
import PushCredentials
import PushIO
import PushOperations
import PushSettings
import PushStores

/// An operator of the simulated world, who runs the shipped commands, one at a time. A command waits for its answers: the world goes on
/// meanwhile.
final class SimulatedOperator {
  /// The answer to a command about a job.
  enum Answer {
    /// Redis did not answer: the command may have been carried out.
    case failed
    /// No worker took the job up yet, or it is forgotten.
    case unknown
    /// - Parameter isTaken: false: nothing is left to do.
    case known(isTaken: Bool)
  }

  private let network: SimulatedNetwork
  private let configuration: Configuration
  private let redis: RedisConfiguration
  private let key: SimulatedSigningKey
  private let goOn: (Int64, SimulatedKernel) -> Void
  private var random: SeededRandom
  /// A command runs.
  private(set) var isBusy = false

  /// - Parameter goOn: plays the world until this time, the network's nanoseconds, or until a socket of the kernel is ready.
  init(
    _ network: SimulatedNetwork, _ configuration: Configuration, key: SimulatedSigningKey, seed: UInt64,
    goOn: @escaping (Int64, SimulatedKernel) -> Void
  ) throws {
    self.network = network
    self.configuration = configuration
    redis = try RedisConfiguration(url: configuration.redis.url)
    self.key = key
    self.goOn = goOn
    random = SeededRandom(seed: seed)
  }

  /// `herald jobs pause|resume|cancel`.
  func control(_ command: ExpansionState.Command, _ job: AudienceID) -> Answer {
    run { kernel in
      kernel.onWait = { [goOn, unowned kernel] in goOn($0, kernel) }
      let jobs = AudienceJobs(
        EventLoop(kernel: kernel), redis, tls: nil, prefix: configuration.redis.prefix, scopes: [job.scope],
        seed: random.next())
      defer { jobs.close() }
      do {
        return try jobs.control(command, job).map { .known(isTaken: $0.isTaken) } ?? .unknown
      } catch {
        return .failed
      }
    }
  }

  /// `herald channels reap`.
  /// - Returns: the channels that were deleted.
  func reap(_ scope: AppScope, unusedForSeconds: Int64) throws -> [ChannelID] {
    try withChannels { channels in
      var deleted: [ChannelID] = []
      try? channels.reap(scope, unusedForSeconds: unusedForSeconds, isDryRun: false) { reaped in
        if !reaped.isInUse, reaped.failure == nil { deleted.append(reaped.id) }
      }
      return deleted
    }
  }

  /// `herald channels reconcile`.
  func reconcile(_ scope: AppScope) throws {
    try withChannels { _ = try? $0.reconcile(scope, isDryRun: false) }
  }

  private func withChannels<Value>(_ work: (ChannelRegistryClient) throws -> Value) throws -> Value {
    try run { kernel in
      let tokensKernel = SimulatedKernel(network, wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero)
      defer { tokensKernel.kill() }
      let tokenStore = RedisProviderTokenStore(configuration: redis, tls: nil, prefix: configuration.redis.prefix)
      let tokensWork = tokenStore.work(on: EventLoop(kernel: tokensKernel), seed: random.next())
      kernel.onWait = { [goOn, unowned kernel] end in
        _ = tokensWork.turn()
        goOn(end, kernel)
      }
      let credentials = try Credentials(
        configuration.credentials, tokens: ProviderTokens(store: tokenStore), tls: SimulatedWorker.tls.get(),
        readKey: key.read)
      let channels = ChannelRegistryClient(
        EventLoop(kernel: kernel), credentials, tokenStore,
        try SimulatedWorker.channelSettings(configuration, "operator").client, redis: (redis, nil),
        activities: (redis, nil), prefix: configuration.redis.prefix, seed: random.next()
      ) { _, _ in }
      defer {
        channels.close()
        _ = tokensWork.turn()
      }
      return try work(channels)
    }
  }

  private func run<Value>(_ command: (SimulatedKernel) throws -> Value) rethrows -> Value {
    isBusy = true
    let kernel = SimulatedKernel(network, wallClockMilliseconds: WorkerWorld.unixMillisecondsAtZero)
    defer {
      kernel.onWait = nil
      kernel.kill()
      isBusy = false
    }
    return try command(kernel)
  }
}
