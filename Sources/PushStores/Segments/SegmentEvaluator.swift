package import PushCore
import PushIO

/// Finds the devices of an audience in the registry, chunk by chunk.
///
/// Not Sendable: it belongs to its Redis client's thread, and calls every `then` there.
package final class SegmentEvaluator {
  private let redis: RedisClient
  private let prefix: String
  private let store: SegmentStore

  /// - Parameter prefix: `redis.prefix`.
  package init(redis: RedisClient, prefix: String) {
    self.redis = redis
    self.prefix = prefix
    store = SegmentStore(redis: redis, prefix: prefix)
  }

  /// Prepares an audience: a few round trips to Redis, regardless of the number of devices.
  ///
  /// Later changes of devices may be seen or not. A device that stays in the audience is always found; one that is
  /// never in it is never found.
  /// - Parameter unixMilliseconds: the base of `seen_within`. All steps of one job use the same time, so that its
  ///   audience does not change while it is expanded.
  package func open(
    _ query: AudienceQuery, in scope: AppScope, unixMilliseconds: Int64, then: @escaping SegmentThen<AudienceReader>
  ) {
    guard let filter = query.filter else {
      guard case .sets(let sets) = query else { preconditionFailure("an audience has a filter or sets") }
      return prepare(FilterPlan(anyOf: sets), scope, then)
    }
    store.segments(of: filter, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let segments):
        osVersions(scope) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(failure))
          case .success(let versions):
            do throws(FilterPlanError) {
              let plan = try FilterPlan(
                filter, segments: segments, unixMilliseconds: unixMilliseconds, osVersions: versions)
              prepare(plan, scope, then)
            } catch {
              then(.failure(.filter(error)))
            }
          }
        }
      }
    }
  }

  /// Those of a few sets that have a device: one round trip to Redis.
  package func setsWithDevices(
    among sets: [DeviceSet], in scope: AppScope, then: @escaping SegmentThen<Set<DeviceSet>>
  ) {
    prepare(FilterPlan(anyOf: sets), scope) { then($0.map(\.setsWithDevices)) }
  }

  // MARK: - Asking

  private func prepare(_ plan: FilterPlan, _ scope: AppScope, _ then: @escaping SegmentThen<AudienceReader>) {
    let keys = RegistryKeys(prefix: prefix, scope: scope)
    let names = plan.sets.map(DeviceSetName.init)
    // And one more answer: the number of ordinals and their epoch.
    let gathered = Gathered(count: names.count)
    let redis = redis
    func isComplete() {
      guard gathered.left == 0 else { return }
      if let failure = gathered.failure { return then(.failure(failure)) }
      then(
        .success(
          AudienceReader(
            redis: redis, keys: keys, plan: plan, names: names, states: gathered.states,
            ordinalCount: gathered.ordinalCount, epoch: gathered.epoch)))
    }
    redis.call(["MGET", keys.next, keys.epoch], key: keys.next) { result in
      gathered.left -= 1
      switch result {
      case .failure(let failure): gathered.fail(failure.failure)
      case .success(let reply):
        if let (count, epoch) = SegmentEvaluator.ordinals(reply) {
          gathered.ordinalCount = count
          gathered.epoch = epoch
        } else {
          gathered.fail(.foreign(key: keys.next))
        }
      }
      isComplete()
    }
    for (index, name) in names.enumerated() {
      let key = keys.bucket(of: name)
      redis.call(["HGET", key], last: name.wordBytes, key: key) { result in
        gathered.left -= 1
        switch result {
        case .failure(let failure): gathered.fail(failure.failure)
        case .success(.null): break
        case .success(let reply):
          if case .bulk(let bytes) = reply, let state = AudienceReader.SetState(bytes) {
            gathered.states[index] = state
          } else {
            gathered.fail(.foreign(key: key))
          }
        }
        isComplete()
      }
    }
  }

  /// The number of allocated ordinals, and their epoch; nil: the registry did not write it.
  private static func ordinals(_ reply: RedisReply) -> (count: Int, epoch: UInt64)? {
    guard case .array(let values) = reply, values.count == 2 else { return nil }
    guard values[0] != .null else { return (0, 0) }
    guard let count = values[0].text.flatMap({ Int($0) }), 0...OrdinalChunk.ordinalsMaximum ~= count else { return nil }
    return (count, values[1].text.flatMap { UInt64($0) } ?? 0)
  }

  /// Collects the answers.
  private final class Gathered {
    var states: [AudienceReader.SetState]
    var ordinalCount = 0
    var epoch: UInt64 = 0
    var left: Int
    private(set) var failure: SegmentFailure?

    init(count: Int) {
      states = Array(repeating: .few([]), count: count)
      left = count + 1
    }

    func fail(_ failure: SegmentFailure) { self.failure = self.failure ?? failure }
  }

  private func osVersions(_ scope: AppScope, then: @escaping SegmentThen<[OSVersion]>) {
    let key = RegistryKeys(prefix: prefix, scope: scope).osVersions
    var versions: Set<OSVersion> = []
    var isForeign = false
    redis.scan(.set, key) { values in
      let read = values.compactMap { $0.text.flatMap(OSVersion.init(text:)) }
      if read.count < values.count { isForeign = true }
      versions.formUnion(read)
    } then: { result in
      then(
        result.mapError(\.failure).flatMap { isForeign ? .failure(.foreign(key: key)) : .success(versions.sorted()) })
    }
  }
}
