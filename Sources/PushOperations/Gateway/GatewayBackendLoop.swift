import Logging
package import PushCore
import PushIO
import PushLane
package import PushStores

/// What gateway requests read from and write to RabbitMQ and Redis. Used only on its loop's thread. Calls each `then` once, in bounded
/// time.
package final class GatewayBackendLoop {
  package typealias Then<Value> = (Result<Value, GatewayFailure>) -> Void

  let loop: EventLoop
  let publisher: GatewayPublisher
  let outcomes: OutcomeFeed
  let keys: KeyReader
  private let sequences: SequenceSource
  private let redis: RedisClient
  private let names: GatewayRedisKeys
  private let expansions: ExpansionStore
  private let segments: SegmentStore
  private let evaluator: SegmentEvaluator
  private let devices: DeviceRegistry
  private let activities: ActivityRegistry

  /// How long the id of a job is stored, and the answer for an idempotency key.
  static let rememberedSeconds = 86_400
  /// How long an idempotency key is reserved for a request that is in progress.
  private static let flightMilliseconds = 60_000
  /// Maximum of devices or users in one query to Redis.
  private static let part = 500
  private static let begin = LuaScript(
    """
    local kept = redis.call('GET', KEYS[1])
    if kept then return kept end
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
    return false
    """)

  init(loop: EventLoop, settings: GatewaySettings, ring: KeyRing, notice: @escaping (Logger.Level, String) -> Void) {
    self.loop = loop
    let names = GatewayRedisKeys(prefix: settings.prefix)
    let redis = RedisClient(
      loop: loop, configuration: settings.redis, tls: settings.redisTLS, seed: .random(in: .min ... .max))
    self.names = names
    self.redis = redis
    publisher = GatewayPublisher(
      loop: loop, settings: settings, jobs: ConfirmedJobs(redis: redis, names: names), notice: notice)
    sequences = SequenceSource(loop: loop, redis: redis, names: names, notice: notice)
    outcomes = OutcomeFeed(loop: loop, settings: settings, notice: notice)
    keys = KeyReader(loop: loop, redis: redis, names: names, file: settings.keysFile, ring: ring) {
      notice(.error, $0)
    }
    expansions = ExpansionStore(redis, prefix: settings.prefix) { loop.now.unixMilliseconds }
    segments = SegmentStore(redis: redis, prefix: settings.prefix)
    evaluator = SegmentEvaluator(redis: redis, prefix: settings.prefix)
    devices = DeviceRegistry(
      loop: loop, redis: redis, prefix: settings.prefix, seed: .random(in: .min ... .max))
    activities = ActivityRegistry(loop: loop, redis: redis, prefix: settings.prefix)
    redis.followTime { _ in }
  }

  var isRedisConnected: Bool { redis.isConnected }
  /// Jobs and registrations that were numbered without Redis.
  var numberedLocally: UInt64 { sequences.ownCount }
  /// No request waits for its jobs' numbers or its confirms.
  var isIdle: Bool { publisher.isIdle && sequences.openCount == 0 }
  /// The next turn goes on with what this one left for it.
  var hasWork: Bool { publisher.hasWork || outcomes.hasWork }

  func turn() {
    redis.turn()
    devices.turn()
    keys.turn()
    publisher.turn()
    outcomes.turn()
  }

  func close() {
    keys.close()
    loop.flush()
    publisher.close()
    outcomes.close()
    redis.close()
  }

  var isClosed: Bool { publisher.isClosed && outcomes.isClosed }

  // MARK: - Jobs

  /// Publishes messages for a key, numbered in their order where that matters.
  /// - Parameter owner: the id of the key.
  func publish(_ messages: [GatewayMessage], of owner: String, then: @escaping ([PublishResult]) -> Void) {
    let names = messages.compactMap(\.numberedName)
    guard !names.isEmpty else { return publisher.publish(messages, of: owner, then: then) }
    sequences.take(names) { [publisher] numbers in
      guard let numbers else { return publisher.publish(messages, of: owner, then: then) }
      var messages = messages
      var next = numbers.makeIterator()
      for index in messages.indices where messages[index].needsSequence {
        if let number = next.next() { messages[index].setSequence(number) }
      }
      publisher.publish(messages, of: owner, then: then)
    }
  }

  /// The time that a registration is dated with, Unix milliseconds: not before one that was answered earlier, at whichever gateway.
  func takeTime(then: @escaping (Int64) -> Void) {
    sequences.take([""]) { [loop] in then($0?.first.map { $0 / 1_000 } ?? loop.now.unixMilliseconds) }
  }

  /// What the gateway knows about a job.
  package enum JobState: Sendable {
    case unknown
    /// RabbitMQ confirmed the job. Only a job for an audience has a later state.
    case queued
    case audience(ExpansionProgress)
  }

  package func job(_ id: String, in scope: AppScope, then: @escaping Then<JobState>) {
    expansions.progress(AudienceID(id, in: scope)) { [redis, names] result in
      switch result {
      case .failure(let failure): then(.failure(failure.asUnavailable))
      case .success(let progress?): then(.success(.audience(progress)))
      case .success(nil):
        let key = names.job(id, in: scope)
        redis.call(["EXISTS", key], key: key) { result in
          then(result.map { $0 == .integer(1) ? .queued : .unknown }.mapError(\.asUnavailable))
        }
      }
    }
  }

  /// Pauses, resumes or cancels a job for an audience. The result is the phase before the command and whether it had an effect; nil: no
  /// worker has started a job with this id in this scope.
  package func control(
    _ command: ExpansionState.Command, _ id: String, in scope: AppScope,
    then: @escaping Then<(before: ExpansionState.Phase, isTaken: Bool)?>
  ) {
    job(id, in: scope) { [expansions] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(.unknown), .success(.queued): then(.success(nil))
      case .success(.audience):
        expansions.control(command, AudienceID(id, in: scope)) { result in
          then(result.map { $0.map { ($0.before, $0.isTaken) } }.mapError(\.asUnavailable))
        }
      }
    }
  }

  // MARK: - Idempotency

  /// Reserves an idempotency key for a request, unless an earlier request has used it.
  package func begin(
    _ idempotency: IdempotencyKey, of key: APIKey, _ route: String, fingerprint: String,
    then: @escaping Then<IdempotentAnswer.Finding>
  ) {
    var arguments = RedisArguments()
    arguments.append(IdempotentAnswer.pending(fingerprint))
    arguments.append(GatewayBackendLoop.flightMilliseconds)
    redis.run(GatewayBackendLoop.begin, keys: [names.idempotency(key, route, idempotency)], arguments) { result in
      then(
        result.map { reply in
          let kept: [UInt8]? = if case .bulk(let bytes) = reply { bytes } else { nil }
          return IdempotentAnswer.find(kept, fingerprint: fingerprint)
        }.mapError(\.asUnavailable))
    }
  }

  /// Stores the answer for an idempotency key.
  /// - Parameter answer: nil: the request failed; releases the key for another attempt.
  package func end(
    _ idempotency: IdempotencyKey, of key: APIKey, _ route: String, answer: IdempotentAnswer?,
    then: @escaping Then<Void>
  ) {
    let name = names.idempotency(key, route, idempotency)
    let done: RedisClient.Answer = { then($0.map { _ in }.mapError(\.asUnavailable)) }
    if let answer {
      redis.call(
        ["SETEX", name, "\(GatewayBackendLoop.rememberedSeconds)"], last: answer.encoded, key: name, then: done)
    } else {
      redis.call(["DEL", name], key: name, then: done)
    }
  }

  // MARK: - Segments

  package func put(_ code: SegmentCode, _ filter: SegmentFilter, in scope: AppScope, then: @escaping Then<Void>) {
    segments.put(code, filter, in: scope, unixMilliseconds: loop.now.unixMilliseconds) {
      then($0.mapError(GatewayFailure.init))
    }
  }

  package func segment(_ code: SegmentCode, in scope: AppScope, then: @escaping Then<SegmentEntry?>) {
    segments.entry(code, in: scope) { then($0.mapError(GatewayFailure.init)) }
  }

  /// Stores the segments one after another. Stops at the first failure.
  package func put(_ segments: [LiveActivitiesPlan.Segment], in scope: AppScope, then: @escaping Then<Void>) {
    put(segments[...], scope, then)
  }

  private func put(
    _ segments: ArraySlice<LiveActivitiesPlan.Segment>, _ scope: AppScope, _ then: @escaping Then<Void>
  ) {
    guard let segment = segments.first else { return then(.success(())) }
    put(segment.code, segment.filter, in: scope) { [self] result in
      guard case .success = result else { return then(result) }
      put(segments.dropFirst(), scope, then)
    }
  }

  /// The first of these codes without a segment; nil: all segments exist.
  package func firstMissing(of codes: [SegmentCode], in scope: AppScope, then: @escaping Then<SegmentCode?>) {
    segments.firstMissing(of: codes, in: scope) { then($0.mapError(GatewayFailure.init)) }
  }

  package func delete(_ code: SegmentCode, in scope: AppScope, then: @escaping Then<SegmentDeletion>) {
    segments.delete(code, in: scope) { then($0.mapError(GatewayFailure.init)) }
  }

  /// Counts the devices that are in a segment now.
  package func count(_ code: SegmentCode, in scope: AppScope, then: @escaping Then<Int>) {
    evaluator.open(.segment(code), in: scope, unixMilliseconds: loop.now.unixMilliseconds) { result in
      switch result {
      case .failure(let failure): then(.failure(GatewayFailure(failure)))
      case .success(let reader): reader.count { then($0.mapError(GatewayFailure.init)) }
      }
    }
  }

  // MARK: - Activities

  /// An activity and some of its members; nil: the activity is unknown.
  package func activity(
    _ id: ActivityID, in scope: AppScope, from cursor: ActivityRegistry.MemberCursor?, limit: Int,
    then: @escaping Then<ActivitiesClient.Page?>
  ) {
    activities.state(id, in: scope) { [self] result in
      take(result, then) { state in
        guard let state else { return then(.success(nil)) }
        var page = ActivitiesClient.Page(activity: ActivityRegistry.Snapshot(id: id, activity: state))
        activities.memberCounts(of: id, in: scope) { [self] result in
          take(result, then) { counts in
            page.counts = counts
            activities.members(of: id, in: scope, from: cursor, limit: limit) { [self] result in
              take(result, then) { found in
                page.page = found
                name(page, found.members.map(\.ordinal)[...], scope, then)
              }
            }
          }
        }
      }
    }
  }

  private func take<Value, Whole>(
    _ result: Result<Value, ActivityRegistryFailure>, _ then: Then<Whole>, _ next: (Value) -> Void
  ) {
    switch result {
    case .failure(let failure): then(.failure(.unavailable("\(failure)")))
    case .success(let value): next(value)
    }
  }

  private func name(
    _ page: ActivitiesClient.Page, _ ordinals: ArraySlice<UInt32>, _ scope: AppScope,
    _ then: @escaping Then<ActivitiesClient.Page?>
  ) {
    let part = Array(ordinals.prefix(GatewayBackendLoop.part))
    guard !part.isEmpty else { return then(.success(page)) }
    devices.records(of: part, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(.unavailable("\(failure)")))
      case .success(let records):
        var page = page
        for (ordinal, record) in zip(part, records) { page.devices[ordinal] = record?.id }
        name(page, ordinals.dropFirst(part.count), scope, then)
      }
    }
  }

  // MARK: - Devices

  /// The devices (ids or alert tokens) and users that the registry does not know, in the given order.
  package func unknown(
    devices: [String], users: [String], in scope: AppScope, then: @escaping Then<[String]>
  ) {
    let subjects =
      devices.map { (name: $0, sets: DeviceSet.sets(ofDevice: $0)) }
      + users.map { (name: $0, sets: [DeviceSet.user($0)]) }
    unknown(subjects[...], scope, Names(), then)
  }

  /// What many steps add to, without a copy in each.
  private final class Names {
    var all: [String] = []
  }

  private func unknown(
    _ subjects: ArraySlice<(name: String, sets: [DeviceSet])>, _ scope: AppScope, _ found: Names,
    _ then: @escaping Then<[String]>
  ) {
    let part = subjects.prefix(GatewayBackendLoop.part)
    guard !part.isEmpty else { return then(.success(found.all)) }
    evaluator.setsWithDevices(among: part.flatMap(\.sets), in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(GatewayFailure(failure)))
      case .success(let known):
        found.all += part.filter { known.isDisjoint(with: $0.sets) }.map(\.name)
        unknown(subjects.dropFirst(part.count), scope, found, then)
      }
    }
  }
}

extension RedisClient.Failure {
  fileprivate var asUnavailable: GatewayFailure { .unavailable("redis: \(text)") }
}
