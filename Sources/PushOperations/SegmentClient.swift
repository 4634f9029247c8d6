package import PushCore
import PushIO
package import PushSettings
package import PushStores

/// Segments for commands: one thing after another, on a loop of its own. Blocks its thread, within bounds.
package final class SegmentClient {
  private let loop: EventLoop
  private let redis: RedisClient
  private let store: SegmentStore
  private let evaluator: SegmentEvaluator
  private let registry: DeviceRegistry

  private static let waitMilliseconds = 50

  /// Throws what is wrong with the address or its trust.
  package init(_ configuration: Configuration) throws {
    let redisConfiguration = try RedisConfiguration(url: configuration.registryURL)
    loop = try EventLoop(wallClock: FleetTime.wallClock(configuration))
    redis = RedisClient(
      loop: loop, configuration: redisConfiguration, tls: try configuration.redis.tls(redisConfiguration),
      seed: UInt64.random(in: .min ... .max))
    store = SegmentStore(redis: redis, prefix: configuration.redis.prefix)
    evaluator = SegmentEvaluator(redis: redis, prefix: configuration.redis.prefix)
    registry = DeviceRegistry(
      loop: loop, redis: redis, prefix: configuration.redis.prefix, seed: .random(in: .min ... .max))
  }

  /// Ends connections.
  package func close() {
    redis.close()
    loop.flush()
  }

  /// Stores a segment with the time of now.
  package func put(_ code: SegmentCode, _ filter: SegmentFilter, in scope: AppScope) throws(SegmentFailure) {
    turn()
    let now = loop.now.unixMilliseconds
    try wait { store.put(code, filter, in: scope, unixMilliseconds: now, then: $0) }
  }

  package func entry(_ code: SegmentCode, in scope: AppScope) throws(SegmentFailure) -> SegmentEntry? {
    try wait { store.entry(code, in: scope, then: $0) }
  }

  package func all(_ scope: AppScope) throws(SegmentFailure) -> [SegmentCode: SegmentEntry] {
    try wait { store.all(scope, then: $0) }
  }

  package func delete(_ code: SegmentCode, in scope: AppScope) throws(SegmentFailure) -> SegmentDeletion {
    try wait { store.delete(code, in: scope, then: $0) }
  }

  /// How many devices an audience has now.
  package func count(_ query: AudienceQuery, in scope: AppScope) throws(SegmentFailure) -> Int {
    let reader = try open(query, scope)
    return try wait { reader.count(then: $0) }
  }

  /// Some devices of an audience, each as likely as any other, and how many it has now.
  package func sample(
    _ limit: Int, of query: AudienceQuery, in scope: AppScope
  ) throws(SegmentFailure) -> (devices: [DeviceRecord], count: Int) {
    let reader = try open(query, scope)
    let random = SeededRandom(seed: UInt64.random(in: .min ... .max))
    let (ordinals, count) = try wait { reader.sample(limit, using: random, then: $0) }
    let records = try wait { then in
      registry.records(of: ordinals, in: scope) { then($0.mapError { .redis("\($0)") }) }
    }
    // One that went meanwhile is none.
    return (records.compactMap(\.self), count)
  }

  private func open(_ query: AudienceQuery, _ scope: AppScope) throws(SegmentFailure) -> AudienceReader {
    turn()
    let now = loop.now.unixMilliseconds
    return try wait { evaluator.open(query, in: scope, unixMilliseconds: now, then: $0) }
  }

  // MARK: - The loop

  private func turn(waitMilliseconds: Int = 0) {
    loop.poll(maximumWaitMilliseconds: waitMilliseconds)
    redis.turn()
    registry.turn()
    loop.flush()
  }

  /// Turns the loop until something is answered: everything asked is, in bounded time.
  private func wait<Value>(_ ask: (@escaping SegmentThen<Value>) -> Void) throws(SegmentFailure) -> Value {
    var answer: Result<Value, SegmentFailure>?
    // The loop's time is that of its last turn, which may be long ago.
    turn()
    ask { answer = $0 }
    loop.flush()
    while true {
      if let answer { return try answer.get() }
      turn(waitMilliseconds: SegmentClient.waitMilliseconds)
    }
  }
}
