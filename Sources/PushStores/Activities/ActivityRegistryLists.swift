package import PushCore
import PushIO

/// Reads of many values: an app's activities, an activity's members.
extension ActivityRegistry {
  /// Members that get an update, in the order of their ordinals.
  package struct Live: Hashable, Sendable {
    package var ordinals: [UInt32]
    /// There may be more after the last of these.
    package var hasMore: Bool
  }

  /// Maximum chunks in one request.
  private static let chunksAtOnce = 16
  /// No further chunk is read in the same request after this many members: with the last chunk's fewer than a reply may have.
  private static let placesAtOnce = 50_000
  /// Maximum devices whose activities are read at once, and activities of each.
  private static let forgottenAtOnce = 128
  private static let membershipsAtOnce = 32
  /// Maximum activities whose states are read at once.
  private static let statesAtOnce = 500

  /// The next members with an update token.
  /// - Parameters:
  ///   - after: start after this ordinal; nil: from the first.
  ///   - limit: maximum number.
  package func live(
    _ id: ActivityID, in scope: AppScope, after: UInt32?, limit: Int, then: @escaping Then<Live>
  ) {
    let first = after.map { UInt64($0) + 1 } ?? 0
    chunks(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let chunks):
        let rest = chunks.filter { UInt64($0 + 1) * UInt64(OrdinalChunk.count) > first }
        live(id, scope, rest[...], from: first, limit, Live(ordinals: [], hasMore: false), then)
      }
    }
  }

  private func live(
    _ id: ActivityID, _ scope: AppScope, _ chunks: ArraySlice<Int>, from first: UInt64, _ limit: Int, _ found: Live,
    _ then: @escaping Then<Live>
  ) {
    let part = chunks.prefix(ActivityRegistry.chunksAtOnce)
    guard !part.isEmpty, found.ordinals.count <= limit else {
      return then(
        .success(
          Live(ordinals: Array(found.ordinals.prefix(limit)), hasMore: found.ordinals.count > limit)))
    }
    let keys = keys(scope)
    var arguments = RedisArguments()
    arguments.append(min(limit + 1 - found.ordinals.count, ActivityRegistry.placesAtOnce))
    redis.run(ActivityScript.places, keys: part.map { keys.live($0, id) }, arguments) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let lists) = reply, !lists.isEmpty else {
        return then(.failure(.unreadable("unexpected reply to a script")))
      }
      var found = found
      for (chunk, list) in zip(part, lists) {
        let ordinals = ActivityRegistry.places(list).map { UInt32(chunk * OrdinalChunk.count) + UInt32($0) }
        found.ordinals += ordinals.filter { UInt64($0) >= first }.sorted()
      }
      live(id, scope, chunks.dropFirst(lists.count), from: first, limit, found, then)
    }
  }

  /// Members of any state, unordered: at most about so many.
  package func members(_ id: ActivityID, in scope: AppScope, limit: Int, then: @escaping Then<[UInt32]>) {
    chunks(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let chunks): members(id, scope, chunks[...], limit, [], then)
      }
    }
  }

  private func members(
    _ id: ActivityID, _ scope: AppScope, _ chunks: ArraySlice<Int>, _ limit: Int, _ found: [UInt32],
    _ then: @escaping Then<[UInt32]>
  ) {
    guard let chunk = chunks.first, found.count < limit else { return then(.success(found)) }
    let keys = keys(scope)
    var arguments = RedisArguments()
    arguments.append(limit - found.count)
    redis.run(ActivityScript.places, keys: [keys.rest(chunk, id), keys.live(chunk, id)], arguments) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let lists) = reply else { return then(.failure(.unreadable("unexpected reply to a script"))) }
      let base = UInt32(chunk * OrdinalChunk.count)
      let more = lists.flatMap { ActivityRegistry.places($0).map { base + UInt32($0) } }
      members(id, scope, chunks.dropFirst(), limit, found + more, then)
    }
  }

  /// The state of one activity.
  package struct Snapshot: Hashable, Sendable {
    package var id: ActivityID
    package var activity: ActivityState
    /// By ordinal.
    package var members: [UInt32: ActivityMember]

    package init(id: ActivityID, activity: ActivityState, members: [UInt32: ActivityMember] = [:]) {
      self.id = id
      self.activity = activity
      self.members = members
    }

    package func count(_ status: ActivityMember.Status) -> Int { members.values.count { $0.status == status } }
  }

  /// One activity with its members; nil: unknown.
  package func show(_ id: ActivityID, in scope: AppScope, then: @escaping Then<Snapshot?>) {
    state(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(nil): then(.success(nil))
      case .success(let activity?):
        chunks(id, in: scope) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(failure))
          case .success(let chunks):
            members(id, scope, chunks[...], Snapshot(id: id, activity: activity), then)
          }
        }
      }
    }
  }

  private func members(
    _ id: ActivityID, _ scope: AppScope, _ chunks: ArraySlice<Int>, _ known: Snapshot,
    _ then: @escaping Then<Snapshot?>
  ) {
    guard let chunk = chunks.first else { return then(.success(known)) }
    let keys = keys(scope)
    hash(keys.live(chunk, id), chunk, known.members) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let members):
        hash(keys.rest(chunk, id), chunk, members) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(failure))
          case .success(let members):
            var known = known
            known.members = members
            self.members(id, scope, chunks.dropFirst(), known, then)
          }
        }
      }
    }
  }

  private func hash(
    _ key: String, _ chunk: Int, _ known: [UInt32: ActivityMember], then: @escaping Then<[UInt32: ActivityMember]>
  ) {
    var known = known
    var isForeign = false
    redis.scan(.hash, key) { values in
      for index in stride(from: 0, to: values.count, by: 2) {
        guard let place = ActivityRegistry.place(values[index]), case .bulk(let bytes) = values[index + 1],
          let member = ActivityMember(decoding: bytes.span)
        else {
          isForeign = true
          continue
        }
        known[UInt32(chunk * OrdinalChunk.count) + UInt32(place)] = member
      }
    } then: { result in
      switch result {
      case .failure(let failure): then(.failure(ActivityRegistryFailure(failure)))
      case .success where isForeign: then(.failure(.unreadable("\(key) holds no member of this version")))
      case .success: then(.success(known))
      }
    }
  }

  /// An app's activities, newest first.
  package func list(_ scope: AppScope, limit: Int, then: @escaping Then<[Snapshot]>) {
    let key = keys(scope).index
    let oldest = "(\(now - ActivityState.memoryMilliseconds)"
    redis.call(["ZREVRANGEBYSCORE", key, "+inf", oldest, "LIMIT", "0", "\(limit)"], key: key) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let values) = reply else {
        return then(.failure(.unreadable("\(key) is no sorted set: does something else use its keys?")))
      }
      states(values.compactMap { $0.text.flatMap(ActivityID.init) }[...], scope, [], then)
    }
  }

  private func states(
    _ ids: ArraySlice<ActivityID>, _ scope: AppScope, _ known: [Snapshot], _ then: @escaping Then<[Snapshot]>
  ) {
    guard let id = ids.first else { return then(.success(known)) }
    state(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let activity):
        states(ids.dropFirst(), scope, known + (activity.map { [Snapshot(id: id, activity: $0)] } ?? []), then)
      }
    }
  }

  /// The broadcast channels of an app's activities. One that has ended has its channel as long as it is known: its end may still be to come,
  /// and APNs keeps it for devices that are offline.
  package func channelsInUse(_ scope: AppScope, then: @escaping Then<Set<ChannelID>>) {
    channelsInUse(scope, from: 0, [], then)
  }

  /// Newest first: one that starts meanwhile moves the others back, and some are read twice.
  private func channelsInUse(
    _ scope: AppScope, from offset: Int, _ found: Set<ChannelID>, _ then: @escaping Then<Set<ChannelID>>
  ) {
    let keys = keys(scope)
    let now = now
    let (oldest, count) = ("(\(now - ActivityState.memoryMilliseconds)", ActivityRegistry.statesAtOnce)
    redis.call(
      ["ZREVRANGEBYSCORE", keys.index, "+inf", oldest, "LIMIT", "\(offset)", "\(count)"], key: keys.index
    ) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let values) = reply else {
        return then(.failure(.unreadable("\(keys.index) is no sorted set: does something else use its keys?")))
      }
      let ids = values.compactMap { $0.text.flatMap(ActivityID.init) }
      guard !ids.isEmpty else { return then(.success(found)) }
      var arguments = RedisArguments()
      for index in ids.indices {
        arguments.append(index + 1)
        arguments.append(ActivityField.state.rawValue)
      }
      redis.run(ActivityScript.read, keys: ids.map(keys.activity), arguments) { [self] result in
        guard let reply = ActivityRegistry.take(result, then) else { return }
        guard case .array(let states) = reply else {
          return then(.failure(.unreadable("unexpected reply to a script")))
        }
        var found = found
        for case .bulk(let bytes) in states {
          guard let activity = ActivityState(decoding: bytes.span) else {
            return then(.failure(.unreadable("an activity of \(scope) is not of this version")))
          }
          if let channel = activity.channel { found.insert(channel) }
        }
        channelsInUse(scope, from: offset + count, found, then)
      }
    }
  }

  /// Removes forgotten devices from their activities.
  package func forget(_ ordinals: [UInt32], in scope: AppScope, then: @escaping Then<Void>) {
    guard !ordinals.isEmpty else { return then(.success(())) }
    let part = Array(ordinals.prefix(ActivityRegistry.forgottenAtOnce))
    let keys = keys(scope)
    var arguments = RedisArguments()
    arguments.append(ActivityRegistry.membershipsAtOnce)
    arguments.append(0)
    redis.run(ActivityScript.memberships, keys: part.map(keys.memberships), arguments) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let lists) = reply, lists.count == part.count else {
        return then(.failure(.unreadable("unexpected reply to a script")))
      }
      var members: [(ordinal: UInt32, ids: [ActivityID])] = []
      // Those that may be members of more activities.
      var again: [UInt32] = []
      for (ordinal, list) in zip(part, lists) {
        guard case .array(let values) = list else { return then(.failure(.unreadable("unexpected reply to a script"))) }
        let ids = values.compactMap { $0.text.flatMap(ActivityID.init) }
        guard ids.count == values.count else {
          return then(.failure(.unreadable("\(keys.memberships(ordinal)): does something else use this key?")))
        }
        if !ids.isEmpty { members.append((ordinal, ids)) }
        if ids.count == ActivityRegistry.membershipsAtOnce { again.append(ordinal) }
      }
      let rest = again + ordinals.dropFirst(part.count)
      forget(members, scope) { [self] result in
        if case .failure = result { return then(result) }
        forget(rest, in: scope, then: then)
      }
    }
  }

  /// A page of the activities that a device is a member of.
  private func memberships(
    of ordinal: UInt32, from offset: Int, in scope: AppScope, then: @escaping Then<[ActivityID]>
  ) {
    var arguments = RedisArguments()
    arguments.append(ActivityRegistry.membershipsAtOnce)
    arguments.append(offset)
    let key = keys(scope).memberships(ordinal)
    redis.run(ActivityScript.memberships, keys: [key], arguments) { result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let lists) = reply, case .array(let values) = lists.first else {
        return then(.failure(.unreadable("unexpected reply to a script")))
      }
      let ids = values.compactMap { $0.text.flatMap(ActivityID.init) }
      guard ids.count == values.count else {
        return then(.failure(.unreadable("\(key): does something else use this key?")))
      }
      then(.success(ids))
    }
  }

  /// Has the devices' registry tell of the tokens that move.
  package func followStarts(of devices: DeviceRegistry) {
    devices.startsMove = { [self] move, scope, then in
      moveStarts(move, in: scope, after: 0) { then($0.mapError(DeviceRegistryFailure.init)) }
    }
  }

  /// A device has another one's push-to-start token now: it becomes a member of the activities that the other is a member of, as one that was
  /// started. What cannot be read is no activity.
  private func moveStarts(_ move: StartMove, in scope: AppScope, after offset: Int, then: @escaping Then<Void>) {
    memberships(of: move.from.ordinal, from: offset, in: scope) { [self] result in
      guard case .success(let ids) = result, !ids.isEmpty else {
        if case .failure(.unreadable) = result { return then(.success(())) }
        return then(result.map { _ in })
      }
      var left = ids.count
      var failure: ActivityRegistryFailure?
      for id in ids {
        succeed(move, of: id, in: scope) { [self] result in
          switch result {
          case .success, .failure(.unreadable): break
          case .failure(let error): failure = error
          }
          left -= 1
          guard left == 0 else { return }
          if let failure { return then(.failure(failure)) }
          moveStarts(move, in: scope, after: offset + ids.count, then: then)
        }
      }
    }
  }

  /// Removes a device that stays from the activities that it joined up to this time.
  /// - Parameters:
  ///   - at: Unix milliseconds.
  ///   - before: the fingerprint of its record when it joined.
  ///   - fingerprint: of its record now: it stays a member with this one.
  package func forget(
    _ ordinal: UInt32, upTo at: Int64, from before: UInt32, to fingerprint: UInt32, in scope: AppScope,
    after offset: Int = 0,
    then: @escaping Then<Void>
  ) {
    memberships(of: ordinal, from: offset, in: scope) { [self] result in
      guard case .success(let ids) = result else { return then(result.map { _ in }) }
      if ids.isEmpty { return then(.success(())) }
      var (left, stayed) = (ids.count, 0)
      var failure: ActivityRegistryFailure?
      for id in ids {
        forget(ordinal, of: id, upTo: at, from: before, to: fingerprint, in: scope) { [self] result in
          switch result {
          case .failure(let error): failure = error
          case .success(let stays): stayed += stays ? 1 : 0
          }
          left -= 1
          guard left == 0 else { return }
          if let failure { return then(.failure(failure)) }
          forget(ordinal, upTo: at, from: before, to: fingerprint, in: scope, after: offset + stayed, then: then)
        }
      }
    }
  }

  private func forget(
    _ members: [(ordinal: UInt32, ids: [ActivityID])], _ scope: AppScope, _ then: @escaping Then<Void>
  ) {
    guard !members.isEmpty else { return then(.success(())) }
    let keys = keys(scope)
    var left = members.count
    var failure: ActivityRegistryFailure?
    for (ordinal, ids) in members {
      let chunk = OrdinalChunk.index(of: ordinal)
      var arguments = RedisArguments()
      arguments.append(ActivityDraft.place(of: ordinal))
      for id in ids { arguments.append(id.text) }
      let names = [keys.memberships(ordinal)] + ids.flatMap { [keys.live(chunk, $0), keys.rest(chunk, $0)] }
      redis.run(ActivityScript.forget, keys: names, arguments) { result in
        if case .failure(let error) = result { failure = ActivityRegistryFailure(error) }
        left -= 1
        if left == 0 { then(failure.map { .failure($0) } ?? .success(())) }
      }
    }
  }

  // MARK: - Values

  /// What is known of one activity without its members; nil: it is not known.
  package func state(_ id: ActivityID, in scope: AppScope, then: @escaping Then<ActivityState?>) {
    let key = keys(scope).activity(id)
    redis.call(["HGET", key, ActivityField.state.rawValue], key: key) { result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .bulk(let bytes) = reply else { return then(.success(nil)) }
      guard let activity = ActivityState(decoding: bytes.span) else {
        return then(.failure(.unreadable("\(key) holds no activity of this version")))
      }
      then(.success(activity))
    }
  }

  func chunks(_ id: ActivityID, in scope: AppScope, then: @escaping Then<[Int]>) {
    let key = keys(scope).chunks(id)
    var chunks: Set<Int> = []
    redis.scan(.set, key) { values in
      chunks.formUnion(
        values.compactMap { $0.text.flatMap { Int($0) } }.filter { 0..<OrdinalChunk.chunksMaximum ~= $0 })
    } then: { result in
      then(result.map { chunks.sorted() }.mapError(ActivityRegistryFailure.init))
    }
  }

  private static func places(_ list: RedisReply) -> [UInt16] {
    guard case .array(let values) = list else { return [] }
    return values.compactMap(place)
  }

  static func place(_ value: RedisReply) -> UInt16? {
    guard case .bulk(let bytes) = value, bytes.count == 2 else { return nil }
    let place = UInt16(bytes[0]) | UInt16(bytes[1]) << 8
    return place < OrdinalChunk.count ? place : nil
  }
}
