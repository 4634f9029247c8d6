package import PushCore
package import PushIO
package import PushSettings
package import PushStores

/// Jobs for audiences while they are expanded, for `herald jobs`: one question after another, on a loop of its own.
package final class AudienceJobs {
  package struct Failure: Error, CustomStringConvertible {
    package let description: String
  }

  private let loop: EventLoop
  private let redis: RedisClient
  private let store: ExpansionStore
  private let scopes: [AppScope]
  private static let waitMilliseconds = 50
  /// A lane holds within half a second, and tells once what is on the wire is answered.
  private static let stillMilliseconds: Int64 = 1_500
  private static let stillMillisecondsMaximum: Int64 = 5_000

  /// Connects to the registry's Redis.
  package convenience init(_ configuration: Configuration) throws {
    let loop = try EventLoop(wallClock: FleetTime.wallClock(configuration))
    let address = try RedisConfiguration(url: configuration.registryURL)
    var scopes: Set<AppScope> = []
    for credential in configuration.credentials {
      for app in credential.apps {
        scopes.formUnion(credential.environments.compactMap { AppScope(app: app, environment: $0) })
      }
    }
    self.init(
      loop, address, tls: try configuration.redis.tls(address), prefix: configuration.redis.prefix,
      scopes: scopes.sorted { ($0.app, $0.environment.rawValue) < ($1.app, $1.environment.rawValue) },
      seed: .random(in: .min ... .max))
  }

  /// - Parameters:
  ///   - scopes: where `jobs` looks for an id.
  ///   - seed: of the pauses between connects.
  package init(
    _ loop: EventLoop, _ address: RedisConfiguration, tls: TLSContext?, prefix: String, scopes: [AppScope], seed: UInt64
  ) {
    self.loop = loop
    redis = RedisClient(loop: loop, configuration: address, tls: tls, seed: seed)
    store = ExpansionStore(redis, prefix: prefix) { loop.now.unixMilliseconds }
    self.scopes = scopes
  }

  /// The known jobs with an id.
  /// - Parameters:
  ///   - app: nil: each that has a credential.
  ///   - environment: nil: each.
  package func jobs(
    _ id: String, app: String?, environment: APNsEnvironment?
  ) throws(Failure) -> [AudienceID] {
    let named = app.map { app in APNsEnvironment.allCases.compactMap { AppScope(app: app, environment: $0) } }
    var known: [AudienceID] = []
    for scope in named ?? scopes where environment == nil || scope.environment == environment {
      let job = AudienceID(id, in: scope)
      if try progress(job) != nil { known.append(job) }
    }
    return known
  }

  /// nil: no job of this id names an audience, or it ended more than a day ago, or no worker took it up yet.
  package func progress(_ job: AudienceID) throws(Failure) -> ExpansionProgress? {
    try wait { store.progress(job, then: $0) }
  }

  /// What became of a command: nil where nobody knows the job.
  package func control(
    _ command: ExpansionState.Command, _ job: AudienceID
  ) throws(Failure) -> (before: ExpansionState.Phase, after: ExpansionState.Phase, isTaken: Bool)? {
    try wait { store.control(command, job, then: $0) }
  }

  /// Waits until a job that was paused or cancelled is completed, or its counts no longer change; a few seconds at most.
  package func waitUntilStill(_ job: AudienceID) throws(Failure) {
    let begin = loop.now.monotonic
    var (known, changedAt) = (try progress(job), begin)
    while known?.phase != .completed {
      let now = loop.now.monotonic
      if now.milliseconds(since: changedAt) >= AudienceJobs.stillMilliseconds
        || now.milliseconds(since: begin) >= AudienceJobs.stillMillisecondsMaximum
      {
        return
      }
      loop.poll(maximumWaitMilliseconds: AudienceJobs.waitMilliseconds)
      let next = try progress(job)
      if next?.summary != known?.summary || next?.phase != known?.phase { changedAt = loop.now.monotonic }
      known = next
    }
  }

  package func close() {
    redis.close()
    loop.flush()
  }

  private func wait<Value>(_ begin: (@escaping ExpansionStore.Then<Value>) -> Void) throws(Failure) -> Value {
    var answer: Result<Value, RedisClient.Failure>?
    // The loop's time is that of its last turn, which may be long ago.
    loop.poll(maximumWaitMilliseconds: 0)
    begin { answer = $0 }
    while true {
      loop.flush()
      if let answer { return try answer.mapError { Failure(description: "redis: \($0.text)") }.get() }
      loop.poll(maximumWaitMilliseconds: AudienceJobs.waitMilliseconds)
      redis.turn()
    }
  }
}
