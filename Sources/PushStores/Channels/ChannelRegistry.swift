package import Logging
package import PushCore
package import PushIO

/// The mapping of names to channels, stored in Redis for the whole fleet. `ChannelEnsureState` decides; this calls
/// Redis and APNs.
///
/// Not Sendable: it belongs to its loop's thread, and calls every `then` there.
package final class ChannelRegistry {
  /// Everything the registry stores about an app's channels.
  package struct Snapshot: Sendable {
    package var names: [ChannelName: ChannelID] = [:]
    package var entries: [ChannelID: ChannelEntry] = [:]
    /// Unix seconds.
    package var used: [ChannelID: Int64] = [:]
    package var intents: [ChannelName: ChannelIntent] = [:]

    /// The channel's name, if that name refers to this channel.
    package func name(of id: ChannelID) -> ChannelName? {
      guard let name = entries[id]?.name, names[name] == id else { return nil }
      return name
    }
  }

  /// Receives the result; not called once the registry is gone.
  package typealias Then<Value> = (Result<Value, ChannelRegistryFailure>) -> Void

  package internal(set) var counters = ChannelCounters()

  let loop: EventLoop
  let limit: ChannelLimit
  let timing: ChannelEnsureState.Timing
  let redis: RedisClient
  private let manager: any ChannelManaging
  private let prefix: String
  private let notice: (Logger.Level, String) -> Void
  private var random: SeededRandom
  private var flows: [ObjectIdentifier: ChannelEnsureFlow] = [:]
  private var levels: [AppScope: ChannelLimit.Level] = [:]
  /// The channels of the last list of an app that Redis did not know, and its generation then: it knows all that was made since, unless it
  /// has lost that.
  private var unknownBefore: [AppScope: (generation: UInt64, ids: [ChannelID])] = [:]
  /// The channels that activities hold; nil: nobody can say.
  package var inUse: ((AppScope, @escaping Then<Set<ChannelID>>) -> Void)?

  /// How long the number of channels is valid before it is counted again.
  private static let countSeconds = 600
  /// Maximum ids in one command.
  private static let chunk = 500

  /// - Parameter seed: of lock owner names and of pauses; different in each registry of the fleet.
  package init(
    loop: EventLoop, redis: RedisClient, manager: any ChannelManaging, prefix: String,
    timing: ChannelEnsureState.Timing, limit: ChannelLimit = ChannelLimit(), seed: UInt64,
    notice: @escaping (Logger.Level, String) -> Void
  ) {
    self.loop = loop
    self.redis = redis
    self.manager = manager
    self.prefix = prefix
    self.timing = timing
    self.limit = limit
    self.notice = notice
    random = SeededRandom(seed: seed)
  }

  package func keys(_ scope: AppScope) -> ChannelKeys { ChannelKeys(prefix: prefix, scope: scope) }
  func nextRandom() -> UInt64 { random.next() }
  /// An owner name for locks. Not the worker's: two of its own requests for one name must exclude each other too.
  func makeOwner() -> String { String(random.next(), radix: 36) + String(random.next(), radix: 36) }
  func say(_ level: Logger.Level, _ text: String) { notice(level, text) }

  // MARK: - One name

  /// Returns the name's channel as `wish` asks: an existing one, or one created once for the fleet.
  package func settle(
    _ name: ChannelName, in scope: AppScope, _ wish: ChannelEnsureState.Wish, credential: String? = nil,
    then: @escaping Then<ChannelEnsureState.Result?>
  ) {
    let flow = ChannelEnsureFlow(self, name, scope, wish, credential: credential)
    flows[ObjectIdentifier(flow)] = flow
    flow.start { [weak self, unowned flow] result in
      self?.flows[ObjectIdentifier(flow)] = nil
      then(result)
    }
  }

  /// The channel of a name.
  package func find(_ name: ChannelName, in scope: AppScope, then: @escaping Then<ChannelID>) {
    let key = keys(scope).names
    ask(["HGET", key, name.text], key: key) { result in
      then(
        result.flatMap { reply in
          guard let text = reply.text, let id = ChannelID(text: text) else {
            return .failure(.unknownName(name, scope))
          }
          return .success(id)
        })
    }
  }

  // MARK: - One channel

  /// A channel's storage policy from the registry, else from APNs, whose answer is stored.
  package func storage(of id: ChannelID, in scope: AppScope, then: @escaping Then<StoragePolicy>) {
    let keys = keys(scope)
    ask(["HGET", keys.ids, id.text], key: keys.ids) { [weak self] result in
      guard let self else { return }
      switch result {
      case .success(let reply):
        if let storage = reply.text.flatMap(ChannelEntry.init)?.storage { return then(.success(storage)) }
      case .failure:
        // Ask APNs instead.
        break
      }
      read(id, in: scope) { then($0.map(\.storage)) }
    }
  }

  /// Asks APNs for a channel, and stores the answer: its storage policy, or that it is gone.
  package func read(
    _ id: ChannelID, in scope: AppScope, credential: String? = nil,
    then: @escaping Then<(storage: StoragePolicy, requestID: UUIDValue)>
  ) {
    manage(.read(id), scope, credential) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure):
        if failure.isUnknownChannel {
          forget(id, in: scope) { _ in then(.failure(.apns(failure))) }
        } else {
          then(.failure(.apns(failure)))
        }
      case .success(let answer):
        guard case .read(let storage) = answer.content else { preconditionFailure("a read is answered by a policy") }
        remember(storage, of: id, in: scope)
        then(.success((storage, answer.requestID)))
      }
    }
  }

  private func remember(_ storage: StoragePolicy, of id: ChannelID, in scope: AppScope) {
    let keys = keys(scope)
    let now = String(loop.now.unixMilliseconds)
    eval(ChannelScript.policy, [keys.ids, keys.intents], [id.text, String(storage.rawValue), now]) { _ in }
  }

  /// Deletes a channel at APNs and forgets it. A channel that APNs does not know is forgotten too, and the failure
  /// reported.
  package func delete(
    _ id: ChannelID, in scope: AppScope, credential: String? = nil, then: @escaping Then<UUIDValue>
  ) {
    manage(.delete(id), scope, credential) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure):
        if failure.isUnknownChannel {
          forget(id, in: scope) { _ in then(.failure(.apns(failure))) }
        } else {
          then(.failure(.apns(failure)))
        }
      case .success(let answer):
        counters.deleted += 1
        forget(id, in: scope) { _ in then(.success(answer.requestID)) }
      }
    }
  }

  /// Forgets a channel that is gone. Returns whether the registry knew it.
  package func forget(_ id: ChannelID, in scope: AppScope, then: @escaping Then<Bool>) {
    let keys = keys(scope)
    eval(ChannelScript.forget, [keys.names, keys.ids, keys.used, keys.count], [id.text]) {
      then($0.map { $0 == .integer(1) })
    }
  }

  /// Stores when channels were last used.
  package func use(_ ids: [ChannelID], in scope: AppScope, unixSeconds: Int64) {
    let keys = keys(scope)
    for start in stride(from: 0, to: ids.count, by: ChannelRegistry.chunk) {
      let part = ids[start..<min(start + ChannelRegistry.chunk, ids.count)].map(\.text)
      // Lost if Redis is unavailable: the next minute reports it again.
      eval(ChannelScript.use, [keys.used], [String(unixSeconds)] + part) { _ in }
    }
  }

  // MARK: - All channels

  /// All channels at APNs. Stores their number, and reports it near the limit.
  package func list(
    _ scope: AppScope, credential: String? = nil, then: @escaping Then<(ids: [ChannelID], requestID: UUIDValue)>
  ) {
    manage(.list, scope, credential) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure):
        then(.failure(.apns(failure)))
      case .success(let answer):
        guard case .listed(let ids) = answer.content else { preconditionFailure("a list is answered by ids") }
        let key = keys(scope).count
        counted(ids.count, in: scope)
        ask(["SET", key, String(ids.count), "EX", String(ChannelRegistry.countSeconds)], key: key) { _ in
          then(.success((ids, answer.requestID)))
        }
      }
    }
  }

  /// Everything the registry stores about an app's channels.
  package func snapshot(_ scope: AppScope, then: @escaping Then<Snapshot>) {
    let keys = keys(scope)
    let steps: [SnapshotStep] = [
      (
        .hash, keys.names,
        { if let name = ChannelName($1), let id = ChannelID(text: $2) { $0.names[name] = id } }
      ),
      (
        .hash, keys.ids,
        { if let id = ChannelID(text: $1), let entry = ChannelEntry($2) { $0.entries[id] = entry } }
      ),
      (
        .hash, keys.intents,
        { if let name = ChannelName($1), let intent = ChannelIntent($2) { $0.intents[name] = intent } }
      ),
      (
        .sortedSet, keys.used,
        {
          if let id = ChannelID(text: $1), let seconds = Double($2).flatMap({ Int64(exactly: $0.rounded(.down)) }) {
            $0.used[id] = seconds
          }
        }
      ),
    ]
    snapshot(steps[...], Snapshot(), then)
  }

  private typealias SnapshotStep = (
    kind: RedisClient.Collection, key: String, take: (inout Snapshot, String, String) -> Void
  )

  private func snapshot(_ steps: ArraySlice<SnapshotStep>, _ known: Snapshot, _ then: @escaping Then<Snapshot>) {
    guard let step = steps.first else { return then(.success(known)) }
    var known = known
    redis.scan(step.kind, step.key) { values in
      for (key, value) in ChannelRegistry.pairs(values) { step.take(&known, key, value) }
    } then: { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure): then(.failure(.redis(failure.text)))
      case .success: snapshot(steps.dropFirst(), known, then)
      }
    }
  }

  /// The channels that the registry does not know.
  package func unknown(_ ids: [ChannelID], in scope: AppScope, then: @escaping Then<[ChannelID]>) {
    unknown(ids[...], of: scope, found: [], then: then)
  }

  private func unknown(
    _ rest: ArraySlice<ChannelID>, of scope: AppScope, found: [ChannelID], then: @escaping Then<[ChannelID]>
  ) {
    guard !rest.isEmpty else { return then(.success(found)) }
    let key = keys(scope).ids
    let part = Array(rest.prefix(ChannelRegistry.chunk))
    ask(["HMGET", key] + part.map(\.text), key: key) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure):
        then(.failure(failure))
      case .success(let reply):
        guard case .array(let values) = reply, values.count == part.count else {
          return then(.failure(.redis("unexpected reply to HMGET \(key): does something else use this key?")))
        }
        let missing = zip(part, values).filter { $1 == .null }.map(\.0)
        unknown(rest.dropFirst(part.count), of: scope, found: found + missing, then: then)
      }
    }
  }

  /// The channels at APNs that Redis does not know, if it loses nothing from now on: lists them, unless it is known.
  func unknown(in scope: AppScope, credential: String?, then: @escaping Then<[ChannelID]>) {
    let generation = redis.generation
    if let known = unknownBefore[scope], known.generation == generation { return then(.success(known.ids)) }
    list(scope, credential: credential) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let list): unknown(list.ids, since: generation, in: scope, then: then)
      }
    }
  }

  /// Keeps which channels of a list Redis does not know.
  /// - Parameter generation: of Redis before the list was read.
  func unknown(
    _ ids: [ChannelID], since generation: UInt64, in scope: AppScope, then: @escaping Then<[ChannelID]>
  ) {
    unknown(ids, in: scope) { [weak self] result in
      if case .success(let unknown) = result { self?.unknownBefore[scope] = (generation, unknown) }
      then(result)
    }
  }

  /// Without those that activities hold.
  func unheld(_ ids: [ChannelID], in scope: AppScope, then: @escaping Then<[ChannelID]>) {
    guard let inUse, !ids.isEmpty else { return then(.success(ids)) }
    inUse(scope) { result in then(result.map { held in ids.filter { !held.contains($0) } }) }
  }

  /// Stores channels of a list that the registry does not know. `isForced`: even during unfinished creates.
  package func learn(_ ids: [ChannelID], in scope: AppScope, isForced: Bool, then: @escaping Then<Int>) {
    learn(ids[...], of: scope, isForced: isForced, learned: 0, then: then)
  }

  private func learn(
    _ rest: ArraySlice<ChannelID>, of scope: AppScope, isForced: Bool, learned: Int, then: @escaping Then<Int>
  ) {
    guard !rest.isEmpty else { return then(.success(learned)) }
    let keys = keys(scope)
    let part = rest.prefix(ChannelRegistry.chunk).map(\.text)
    eval(
      ChannelScript.learn, [keys.ids, keys.intents],
      [String(loop.now.unixMilliseconds), isForced ? "0" : "1"] + part
    ) { [weak self] result in
      guard let self else { return }
      switch result {
      case .failure(let failure):
        then(.failure(failure))
      case .success(let reply):
        guard case .integer(let count) = reply, 0...Int64(part.count) ~= count else {
          return then(.failure(.redis("unexpected reply to a channel script: does something else use its keys?")))
        }
        learn(
          rest.dropFirst(part.count), of: scope, isForced: isForced, learned: learned + Int(count), then: then)
      }
    }
  }

  /// Records the number of channels. Logs once when it nears the limit, and once when it is below again.
  func counted(_ count: Int, in scope: AppScope) {
    counters.counts[scope] = count
    let level = limit.level(count)
    guard levels[scope] ?? .fine != level else { return }
    levels[scope] = level
    let text = "channels: \(scope) has \(count) of at most \(limit.maximum) channels"
    switch level {
    case .fine: say(.info, text)
    case .near: say(.warning, text + "; delete those whose events are over (herald channels reap)")
    case .full: say(.error, text + ": none can be made; delete those whose events are over (herald channels reap)")
    }
  }

  // MARK: - Asking

  func manage(
    _ operation: ChannelRequest.Operation, _ scope: AppScope, _ credential: String?,
    then: @escaping (Result<ChannelAnswer, ChannelFailure>) -> Void
  ) {
    manager.perform(ChannelRequest(operation, in: scope, credential: credential), then: then)
  }

  /// Sends one command; an error reply is a failure.
  package func ask(_ arguments: [String], last: [UInt8]? = nil, key: String, then: @escaping Then<RedisReply>) {
    redis.call(arguments, last: last, key: key) { then($0.mapError { .redis($0.text) }) }
  }

  package func eval(_ script: String, _ keys: [String], _ arguments: [String], then: @escaping Then<RedisReply>) {
    ask(["EVAL", script, String(keys.count)] + keys + arguments, key: keys[0], then: then)
  }

  private static func pairs(_ values: [RedisReply]) -> [(String, String)] {
    stride(from: 0, to: values.count - 1, by: 2).compactMap { index in
      guard let key = values[index].text, let value = values[index + 1].text else { return nil }
      return (key, value)
    }
  }
}
