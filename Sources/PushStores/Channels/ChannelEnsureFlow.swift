import Logging
import PushCore
import PushIO

/// Carries out the decisions of `ChannelEnsureState` for one name, step by step.
final class ChannelEnsureFlow {
  /// Owns this flow.
  private unowned let registry: ChannelRegistry
  private let name: ChannelName
  private let scope: AppScope
  private let keys: ChannelKeys
  private let credential: String?
  private let owner: String
  private var state: ChannelEnsureState
  private var then: ChannelRegistry.Then<ChannelEnsureState.Result?> = { _ in }
  /// Unknown channels that the last search found.
  private var strays: [ChannelID] = []
  /// The channel that was discarded last when the last search began; empty: none.
  private var discarded = ""
  private static let retryMilliseconds: Int64 = 1_000

  init(
    _ registry: ChannelRegistry, _ name: ChannelName, _ scope: AppScope, _ wish: ChannelEnsureState.Wish,
    credential: String?
  ) {
    self.registry = registry
    self.name = name
    self.scope = scope
    self.credential = credential
    keys = registry.keys(scope)
    owner = registry.makeOwner()
    state = ChannelEnsureState(
      name, in: scope, wish, timing: registry.timing, limit: registry.limit, now: registry.loop.now.monotonic)
  }

  func start(_ then: @escaping ChannelRegistry.Then<ChannelEnsureState.Result?>) {
    self.then = then
    perform(.look)
  }

  private var now: Now { registry.loop.now }

  private func perform(_ action: ChannelEnsureState.Action) {
    switch action {
    case .look: look()
    case .wait(let milliseconds):
      registry.loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
        guard let self else { return }
        perform(state.waited())
      }
    case .count: count()
    case .note: note()
    case .search(let storage): search(storage)
    case .create(let storage): create(storage)
    case .store(let id, let entry, let isNew): store(id, entry, isNew: isNew)
    case .clear(let isUndecided): clear(isUndecided: isUndecided)
    case .discard(let id, let result): discard(id, result)
    case .fail(let failure, let clearsIntent, let holdsLock):
      guard holdsLock else { return then(.failure(failure)) }
      release(clearsIntent: clearsIntent, freesLock: true) { [self] _ in then(.failure(failure)) }
    case .done(let result): done(result)
    case .nothing: then(.success(nil))
    }
  }

  private func done(_ result: ChannelEnsureState.Result) {
    switch result.origin {
    case .found:
      break
    case .created:
      registry.counters.created += 1
      registry.say(.info, "channels: made \(result.id) of \(scope) for \"\(name)\"")
    case .adopted:
      registry.counters.adopted += 1
      registry.say(
        .warning,
        "channels: \(result.id) of \(scope) is adopted for \"\(name)\": an earlier create made it; its answer was lost")
    }
    then(.success(result))
  }

  // MARK: - Redis

  private func look() {
    registry.eval(
      ChannelScript.look, [keys.names, keys.ids, keys.intents, keys.lock(name), keys.count, keys.discarded],
      [
        name.text, owner, String(registry.timing.lockMilliseconds), String(state.storage.rawValue),
        String(registry.limit.maximum), state.mayCreate ? "1" : "0",
      ]
    ) { [self] result in
      switch result {
      case .failure(.redis(let text)):
        perform(state.redisFailed(text))
      case .failure(let failure):
        perform(state.redisFailed("\(failure)"))
      case .success(let reply):
        guard let look = look(reply) else {
          return perform(state.redisFailed("the entry of \"\(name)\" cannot be read; look at \(keys.names)"))
        }
        switch look {
        case .begun(let count), .full(let count): registry.counted(count, in: scope)
        case .found, .lockedByOther, .unfinished, .uncounted, .nothing: break
        }
        perform(state.looked(look, now: now, random: registry.nextRandom()))
      }
    }
  }

  private func look(_ reply: RedisReply) -> ChannelEnsureState.Look? {
    guard case .array(let values) = reply, case .integer(let kind)? = values.first else { return nil }
    switch (kind, values.count) {
    case (0, 3):
      guard let id = values[1].text.flatMap({ ChannelID(text: $0) }),
        let entry = values[2].text.flatMap(ChannelEntry.init)
      else { return nil }
      return .found(id, entry)
    case (1, _): return .lockedByOther
    case (2, 4):
      guard let intent = values[1].text.flatMap(ChannelIntent.init), let now = values[2].text.flatMap({ Int64($0) }),
        0...Limits.unixMillisecondsMaximum ~= now, let last = values[3].text
      else { return nil }
      discarded = last
      return .unfinished(intent, redisNow: now)
    case (3, 2), (5, 2):
      guard case .integer(let count) = values[1] else { return nil }
      return kind == 3 ? .begun(count: Int(count)) : .full(count: Int(count))
    case (4, _): return .uncounted
    case (6, _): return .nothing
    default: return nil
    }
  }

  private func store(_ id: ChannelID, _ entry: ChannelEntry, isNew: Bool) {
    registry.eval(
      ChannelScript.store, [keys.names, keys.ids, keys.intents, keys.lock(name), keys.count, keys.discarded],
      [name.text, owner, id.text, entry.text, isNew ? "1" : "0", discarded]
    ) { [self] result in
      switch result {
      case .failure(let failure):
        registry.say(
          .warning,
          "channels: \(id) of \(scope) was made for \"\(name)\" and could not be stored; the next ensure looks for it: \(failure)"
        )
        perform(state.redisFailed("\(failure)"))
      case .success(let reply):
        let stored: ChannelEnsureState.Stored =
          switch reply {
          case .integer(1): .stored
          case .integer(2): .taken
          default: .lockLost
          }
        perform(state.stored(stored, now: now, random: registry.nextRandom()))
      }
    }
  }

  private func clear(isUndecided: Bool) {
    if isUndecided {
      registry.counters.undecided += 1
      let ids = strays.prefix(5).map(\.text).joined(separator: ", ")
      registry.say(
        .error,
        """
        channels: an earlier create of "\(name)" (\(scope)) was not answered, and there are more new channels (\(ids)) \
        than unanswered creates: another sender creates channels of this app too. A new one is created, and one of \
        these may be unused (see herald channels reconcile)
        """)
      return registry.learn(strays, in: scope, isForced: true) { [self] _ in clear(isUndecided: false) }
    }
    if name.isOfActivity {
      registry.counters.undecided += 1
      registry.say(
        .warning,
        """
        channels: an earlier create of "\(name)" (\(scope)) was not answered; another is made, and the earlier one's \
        channel, if there is one, stays unused (see herald channels reconcile)
        """)
    }
    release(clearsIntent: true, freesLock: false) { [self] result in
      switch result {
      case .failure(let failure): perform(state.redisFailed("\(failure)"))
      case .success: perform(state.cleared())
      }
    }
  }

  private func release(
    clearsIntent: Bool, freesLock: Bool, then: @escaping ChannelRegistry.Then<RedisReply>
  ) {
    registry.eval(
      ChannelScript.release, [keys.intents, keys.lock(name)],
      [name.text, owner, clearsIntent ? "1" : "0", freesLock ? "1" : "0"], then: then)
  }

  // MARK: - APNs

  private func create(_ storage: StoragePolicy) {
    registry.manage(.create(storage), scope, credential) { [self] result in
      switch result {
      case .failure(let failure):
        perform(state.createFailed(failure, now: now))
      case .success(let answer):
        guard case .created(let id) = answer.content else { preconditionFailure("a create is answered by an id") }
        perform(state.created(id, now: now))
      }
    }
  }

  /// Counts the channels and stores their ids, so that the channel of a later lost create can be told from them.
  private func count() {
    let generation = registry.redis.generation
    registry.list(scope, credential: credential) { [self] result in
      switch result {
      case .failure(let failure): failed(failure)
      case .success(let list):
        registry.unknown(list.ids, since: generation, in: scope) { [self] result in
          if case .failure(let failure) = result { return failed(failure) }
          registry.learn(list.ids, in: scope, isForced: false) { [self] result in
            if case .failure(let failure) = result { return failed(failure) }
            perform(state.counted())
          }
        }
      }
    }
  }

  private func failed(_ failure: ChannelRegistryFailure) {
    if case .apns(let failure) = failure { return perform(state.lookFailed(failure)) }
    perform(state.redisFailed("\(failure)"))
  }

  /// Too many are not stored: then nothing is adopted.
  private func note() {
    registry.unknown(in: scope, credential: credential) { [self] result in
      switch result {
      case .failure(let failure): failed(failure)
      case .success(let unknown):
        guard unknown.count <= ChannelIntent.beforeMaximum else {
          return perform(state.noted(isStored: true, now: now, random: registry.nextRandom()))
        }
        registry.eval(
          ChannelScript.note, [keys.intents, keys.lock(name)],
          [
            name.text, owner, String(state.storage.rawValue), ChannelIntent.text(before: unknown),
            String(registry.timing.lockMilliseconds),
          ]
        ) { [self] result in
          switch result {
          case .failure(let failure): failed(failure)
          case .success(let reply):
            perform(state.noted(isStored: reply == .integer(1), now: now, random: registry.nextRandom()))
          }
        }
      }
    }
  }

  private func search(_ storage: StoragePolicy) {
    registry.list(scope, credential: credential) { [self] result in
      switch result {
      case .failure(.apns(let failure)): perform(state.lookFailed(failure))
      case .failure(let failure): perform(state.redisFailed("\(failure)"))
      case .success(let list):
        registry.unknown(list.ids, in: scope) { [self] result in
          switch result {
          case .failure(let failure): perform(state.redisFailed("\(failure)"))
          case .success(let unknown):
            strays = unknown
            registry.unheld(state.candidates(unknown), in: scope) { [self] result in
              switch result {
              case .failure(let failure): failed(failure)
              case .success(let candidates):
                ask(candidates.prefix(ChannelRecovery.candidatesMaximum), storage, candidates: [])
              }
            }
          }
        }
      }
    }
  }

  /// Keeps those with the storage policy.
  private func ask(_ rest: ArraySlice<ChannelID>, _ storage: StoragePolicy, candidates: [ChannelID]) {
    guard let id = rest.first else { return decide(storage, candidates) }
    registry.manage(.read(id), scope, credential) { [self] result in
      var candidates = candidates
      switch result {
      case .failure(let failure):
        // Deleted meanwhile.
        guard failure.isUnknownChannel else { return perform(state.lookFailed(failure)) }
      case .success(let answer):
        if answer.content == .read(storage) { candidates.append(id) }
      }
      ask(rest.dropFirst(), storage, candidates: candidates)
    }
  }

  private func decide(_ storage: StoragePolicy, _ candidates: [ChannelID]) {
    var known: [ByteText: ChannelIntent] = [:]
    registry.redis.scan(.hash, keys.intents) { values in
      for index in stride(from: 0, to: values.count, by: 2) {
        if let name = values[index].text { known[ByteText(name)] = values[index + 1].text.flatMap(ChannelIntent.init) }
      }
    } then: { [self] result in
      switch result {
      case .failure(let failure):
        perform(state.redisFailed(failure.text))
      case .success:
        let intents = known.sorted { $0.key < $1.key }.map(\.value).filter { $0.storage == storage }
        registry.ask(["TIME"], key: keys.intents) { [self] result in
          guard case .success(.array(let parts)) = result, let seconds = parts.first?.text.flatMap({ Int64($0) }),
            0...Limits.unixSecondsMaximum ~= seconds
          else { return perform(state.redisFailed("TIME was not answered")) }
          searched(candidates, intents, storage, redisNow: seconds * 1000)
        }
      }
    }
  }

  /// Drops candidates that another create took after the list was read: its intent is gone, so it would leave one
  /// channel too many.
  private func searched(
    _ candidates: [ChannelID], _ intents: [ChannelIntent], _ storage: StoragePolicy, redisNow: Int64
  ) {
    registry.unknown(candidates, in: scope) { [self] result in
      switch result {
      case .failure(let failure):
        perform(state.redisFailed("\(failure)"))
      case .success(let left):
        // The new owner's intent may have been counted: count again.
        if left.count < candidates.count { return decide(storage, left) }
        perform(
          state.searched(
            candidates: left, intents: intents, storage: storage, redisNow: redisNow, now: now,
            random: registry.nextRandom()))
      }
    }
  }

  /// Deletes a channel that was created in vain, unless it has a name by now. A failure is retried, although the caller waits: nobody else
  /// deletes it.
  private func discard(_ id: ChannelID, _ result: ChannelEnsureState.Result) {
    take(id, result, until: now.monotonic.adding(milliseconds: registry.timing.patienceMilliseconds))
  }

  private func take(_ id: ChannelID, _ result: ChannelEnsureState.Result, until deadline: Instant) {
    registry.eval(ChannelScript.take, [keys.ids, keys.discarded], [id.text, String(now.unixMilliseconds)]) {
      [self] taken in
      switch taken {
      case .success(.integer(1)):
        registry.say(.warning, "channels: \(id) of \(scope) was made in vain for \"\(name)\", and is deleted again")
        delete(id, result, until: deadline)
      case .success:
        finish(result)
      case .failure(let failure):
        again(result, until: deadline) {
          $0.take(id, result, until: deadline)
        } orSay: {
          """
          channels: \(id) of \(scope) was made in vain for "\(name)", and it is not known whether it has another name by now; see herald \
          channels list: \(failure)
          """
        }
      }
    }
  }

  private func delete(_ id: ChannelID, _ result: ChannelEnsureState.Result, until deadline: Instant) {
    registry.delete(id, in: scope, credential: credential) { [self] deleted in
      switch deleted {
      case .success:
        registry.counters.discarded += 1
        finish(result)
      case .failure(.apns(let failure)) where failure.isUnknownChannel:
        // The answer to an earlier delete was lost.
        registry.counters.discarded += 1
        finish(result)
      case .failure(let failure):
        again(result, until: failure.isTemporary ? deadline : nil) {
          $0.delete(id, result, until: deadline)
        } orSay: {
          "channels: \(id) of \(scope) has no name and could not be deleted; use herald channels delete: \(failure)"
        }
      }
    }
  }

  /// Calls the step later; from the deadline on, or without one, it ends with the result.
  private func again(
    _ result: ChannelEnsureState.Result, until deadline: Instant?, _ step: @escaping (ChannelEnsureFlow) -> Void,
    orSay text: () -> String
  ) {
    guard let deadline, now.monotonic < deadline else {
      registry.say(.error, text())
      return finish(result)
    }
    registry.loop.schedule(afterMilliseconds: ChannelEnsureFlow.retryMilliseconds) { [weak self] in
      if let self { step(self) }
    }
  }

  private func finish(_ result: ChannelEnsureState.Result) {
    if let failure = state.conflict(result.id, result.entry, isOurs: false) { return then(.failure(failure)) }
    done(result)
  }
}
