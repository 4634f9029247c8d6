package import PushCore
package import PushIO

/// The fleet's Live Activities, stored in Redis. `ActivityState` and `ActivityMember` decide; this reads and writes.
///
/// A call reads an activity and the named members at once, decides, and commits if nobody changed them meanwhile;
/// otherwise it reads and decides again (optimistic locking). So an update and a concurrent registration see each other
/// in either order, and a crash leaves all changes or none. Not Sendable: it belongs to its loop's thread, and calls
/// every `then` there.
package final class ActivityRegistry {
  package typealias Then<Value> = (Result<Value, ActivityRegistryFailure>) -> Void

  private let loop: EventLoop
  let redis: RedisClient
  private let prefix: String
  private let clock: (() -> Int64)?

  /// Conflicting changes are as frequent as revisions of an activity, or registrations of one device.
  private static let attemptsMaximum = 20

  /// - Parameter clock: Unix milliseconds; nil: the loop's clock.
  package init(loop: EventLoop, redis: RedisClient, prefix: String, clock: (() -> Int64)? = nil) {
    self.clock = clock
    self.loop = loop
    self.redis = redis
    self.prefix = prefix
  }

  func keys(_ scope: AppScope) -> ActivityKeys { ActivityKeys(tag: RegistryKeys(prefix: prefix, scope: scope).tag) }

  /// Unix milliseconds.
  var now: Int64 { clock?() ?? loop.now.unixMilliseconds }

  /// Devices may show revisions with timestamps up to this one (Unix seconds) that Redis lost: it may have been restored before it was connected.
  private func lostTimestamp(_ now: Int64) -> Int64 { clock == nil ? min(redis.generationAt, now) / 1_000 : 0 }

  // MARK: - Jobs

  /// A job starts the activity, or adds devices to it.
  /// - Parameters:
  ///   - payload: as the job has it.
  ///   - way: of its updates, where no start has decided it.
  package func start(
    _ id: ActivityID, in scope: AppScope, payload: ActivityPayload, way: ActivityState.UpdateWay = .tokens, job: UInt64,
    then: @escaping Then<ActivityRevision>
  ) {
    change(id, [], scope, hasTexts: true, then) { draft, now in
      do throws(ActivityRefusal) {
        let isNew = draft.activity?.startRevision == nil
        let revision = try ActivityState.start(
          &draft.activity, type: payload.attributesType, digest: payload.digest, way: way, job: job,
          jobs: &draft.jobs, now: now)
        // Where the app started it itself and it was updated since, it shows that.
        if isNew && draft.contentState.isEmpty { draft.contentState = payload.contentState ?? [] }
        return .success(revision)
      } catch {
        return .failure(.refused(id, error))
      }
    }
  }

  /// The result of a job's revision, and the job to send.
  package struct Revised: Sendable {
    package var answer: ActivityState.Revised
    /// The body from `edit`; empty: nothing is sent, or not yet.
    package var body: [UInt8]
  }

  /// A job updates or ends the activity for all members.
  /// - Parameters:
  ///   - payload: the job's payload.
  ///   - mayWait: for its start, if the activity is not known.
  ///   - edit: makes the job to send, from its revision and the newest content state before it (empty: none).
  package func revise(
    _ id: ActivityID, in scope: AppScope, payload: ActivityPayload, order: JobOrder = .arrival, job: UInt64,
    mayWait: Bool = false, edit: @escaping (ActivityRevision, [UInt8]) throws(JobError) -> [UInt8],
    then: @escaping Then<Revised>
  ) {
    let showsLast = payload.event == .end && payload.contentState == nil
    change(id, [], scope, hasTexts: true, then) { [self] draft, now in
      let before = draft.activity?.content
      let last = draft.last(now: now)
      draft.activity?.pass(lostTimestamp(now))
      do throws(ActivityRefusal) {
        let answer = try ActivityState.revise(
          &draft.activity, isEnd: payload.event == .end, showsLast: showsLast, order: order, job: job,
          jobs: &draft.jobs, mayWait: mayWait, now: now)
        if let content = draft.activity?.content, content.revision != before?.revision {
          draft.past.append(last, before: before?.revision.number ?? 0, newest: content.revision.number)
          do throws(JobError) {
            draft.body = try edit(content.revision, draft.contentState)
            // Until its pushes begin, it may show a newer one.
            if showsLast { draft.body = try edit(content.revision, []) }
          } catch {
            return .failure(.invalid(error))
          }
          if let contentState = payload.contentState { draft.contentState = contentState }
        } else if draft.activity?.content?.shownPlace != before?.shownPlace, let contentState = payload.contentState {
          draft.contentState = contentState
        }
        return .success(ActivityRegistry.revised(answer, draft))
      } catch {
        return .failure(.refused(id, error))
      }
    }
  }

  private static func revised(_ answer: ActivityState.Revised, _ draft: ActivityDraft) -> Revised {
    switch answer {
    case .begun, .waits: Revised(answer: answer, body: draft.newest)
    case .superseded, .early: Revised(answer: answer, body: [])
    }
  }

  /// A job ends the activity for some devices.
  /// - Parameters:
  ///   - ordinals: at most 1000.
  ///   - devices: here and below, the fingerprints of the devices with these ordinals; empty: not known. Who is a member with another
  ///     fingerprint is another device.
  ///   - edit: as in `revise`; and the job to keep for late tokens, which names no device.
  package func leave(
    _ id: ActivityID, in scope: AppScope, ordinals: [UInt32], devices: [UInt32] = [],
    order: JobOrder = .arrival, job: UInt64, mayWait: Bool = false,
    edit: @escaping (ActivityRevision, [UInt8]) throws(JobError) -> (body: [UInt8], late: [UInt8]),
    then: @escaping Then<Revised>
  ) {
    change(id, ordinals, scope, devices: devices, hasTexts: true, then) { [self] draft, now in
      let before = draft.activity?.leave
      var earlier: UInt32 = 0
      if case .revision(let number) = draft.jobs.find(job, last: draft.activity?.lastNumber ?? 0) { earlier = number }
      draft.activity?.pass(lostTimestamp(now))
      do throws(ActivityRefusal) {
        let answer = try ActivityState.leave(
          &draft.activity, &draft.members, order: order, job: job, jobs: &draft.jobs, mayWait: mayWait, now: now)
        guard case .begun(let revision) = answer else { return .success(Revised(answer: answer, body: [])) }
        do throws(JobError) {
          let (body, late) = try edit(revision, draft.contentState)
          if revision != before { draft.leaves.append(revision, late, insteadOf: earlier) }
          return .success(Revised(answer: answer, body: body))
        } catch {
          return .failure(.invalid(error))
        }
      } catch {
        return .failure(.refused(id, error))
      }
    }
  }

  // MARK: - Devices

  /// The result of a registration. If a push is due, `body` is the job to make it from.
  package struct Registered: Sendable {
    package var answer: ActivityState.Registered
    package var body: [UInt8]
  }

  /// A device registered its update token; empty: the activity is over on it. For another device that registered this token earlier the
  /// activity is over, and of one that registered it later this registration is older: they are one phone.
  /// - Parameter at: Unix milliseconds.
  package func register(
    _ id: ActivityID, in scope: AppScope, ordinal: UInt32, device: UInt32 = 0, token: [UInt8], at: Int64,
    then: @escaping Then<Registered>
  ) {
    change(id, [ordinal], scope, devices: [device], token: token, hasTexts: false, then) { draft, now in
      let ignored = Registered(answer: .ignored, body: [])
      var other: ActivityMember?
      if let holder = draft.holder, holder != ordinal {
        guard draft.ordinals.last == holder else {
          draft.neededMember = holder
          return .success(ignored)
        }
        other = draft.members[1]
        if other?.yields(token, at: at, hasLarger: ordinal < holder, now: now) == false { return .success(ignored) }
      }
      let answer = ActivityState.register(
        &draft.activity, &draft.members[0], token: token, at: at, leaves: draft.hasTexts ? draft.leaves : nil, now: now)
      if answer == .ignored { return .success(ignored) }
      if let other { draft.members[1] = other }
      draft.newHolder = ordinal
      guard case .late(_, let isLeave) = answer else { return .success(Registered(answer: answer, body: [])) }
      draft.needsTexts = true
      let end = isLeave ? draft.members[0].flatMap { draft.leaves.last(of: $0)?.body } ?? [] : draft.newest
      return .success(Registered(answer: answer, body: end))
    }
  }

  /// Call before pushes to members: returns the token of each, if any, and marks the pushes as sent.
  /// - Parameters:
  ///   - job: the word of a job that ends the activity for some devices: if it came twice, it may have two revisions.
  ///   - isFor: whether a late token's push is for this token; another one has a push of its own.
  package func resolve(
    _ push: ActivityState.Push, of id: ActivityID, in scope: AppScope, to ordinals: [UInt32],
    devices: [UInt32] = [], job: UInt64? = nil, isFor: @escaping ([UInt8]) -> Bool = { _ in true },
    then: @escaping Then<[ActivityState.Resolved]>
  ) {
    change(id, ordinals, scope, devices: devices, hasTexts: job != nil, then) { draft, now in
      guard let activity = draft.activity else { return .success(ordinals.map { _ in .skipped(.over) }) }
      var push = push
      if let job, case .revision(let number) = draft.jobs.find(job, last: activity.lastNumber) {
        push.newestOfJob = number
      }
      return .success(
        draft.members.indices.map { index in
          if let token = draft.members[index]?.token, !token.isEmpty, !isFor(token) { return .skipped(.sentAlready) }
          return activity.resolve(push, &draft.members[index], now: now)
        })
    }
  }

  /// The members with these ordinals; nil: it is none.
  package func members(
    of id: ActivityID, in scope: AppScope, _ ordinals: [UInt32], devices: [UInt32] = [],
    then: @escaping Then<[ActivityMember?]>
  ) {
    change(id, ordinals, scope, devices: devices, hasTexts: false, then) { draft, _ in .success(draft.members) }
  }

  /// Starts are about to be sent to devices: to which of them. Marks those as starting.
  /// - Parameters:
  ///   - areAlerts: the fallback alert is sent in their place.
  ///   - inputPushChannel: the channel that the start names.
  ///   - lost: of an activity that is not known: it is known again with this type of attributes and this timestamp of the start (Unix
  ///     seconds; nil: not known). nil: nothing is sent.
  package func resolveStart(
    of id: ActivityID, in scope: AppScope, job: UInt64, areAlerts: Bool = false, inputPushChannel: String? = nil,
    isOver: Bool = false, to ordinals: [UInt32], devices: [UInt32] = [],
    lost: (type: String, timestamp: Int64?)? = nil,
    then: @escaping Then<[ActivityState.Started]>
  ) {
    change(id, ordinals, scope, devices: devices, hasTexts: false, then) { draft, now in
      if draft.activity == nil, let lost {
        draft.activity = .restored(type: lost.type, timestamp: lost.timestamp, now: now)
      }
      guard let activity = draft.activity else { return .success(ordinals.map { _ in .skipped(.over) }) }
      return .success(
        draft.members.indices.map {
          activity.resolveStart(
            job, isAlert: areAlerts, inputPushChannel: inputPushChannel, isOver: isOver, &draft.members[$0], now: now)
        })
    }
  }

  /// Pushes of a start, or of its fallback alerts, have ended.
  /// - Parameter haveReached: for each device whether APNs accepted its push, or may have; if it surely did not, another job may start it.
  package func startsEnded(
    of id: ActivityID, in scope: AppScope, job: UInt64, areAlerts: Bool, ordinals: [UInt32], devices: [UInt32] = [],
    haveReached: [Bool], then: @escaping Then<Void>
  ) {
    endStarts(of: id, scope, job, areAlerts, ordinals, devices, haveReached, haveTold: false, then)
  }

  /// Devices to which their start tokens moved meanwhile are told first: told again, those that they moved from may be gone.
  private func endStarts(
    of id: ActivityID, _ scope: AppScope, _ job: UInt64, _ areAlerts: Bool, _ ordinals: [UInt32], _ devices: [UInt32],
    _ haveReached: [Bool], haveTold: Bool, _ then: @escaping Then<Void>
  ) {
    let tell: Then<[(ordinal: UInt32, hasReached: Bool)]> = { [self] result in
      guard case .success(let successors) = result, !successors.isEmpty else { return then(result.map { _ in }) }
      endStarts(
        of: id, scope, ActivityMember.movedStart(job), areAlerts, successors.map(\.ordinal), [],
        successors.map(\.hasReached), haveTold: false
      ) { [self] result in
        guard case .success = result else { return then(result) }
        endStarts(of: id, scope, job, areAlerts, ordinals, devices, haveReached, haveTold: true, then)
      }
    }
    change(id, ordinals, scope, devices: devices, hasTexts: false, tell) { draft, now in
      if !haveTold {
        let successors = zip(draft.members, haveReached).compactMap { member, hasReached in
          member?.successor.map { (ordinal: $0, hasReached: hasReached) }
        }
        if !successors.isEmpty { return .success(successors) }
      }
      for (index, hasReached) in haveReached.enumerated() {
        let isFree = draft.members[index]?.startEnded(job, isAlert: areAlerts, hasReached: hasReached, now: now)
        if isFree == true { draft.members[index] = nil }
      }
      return .success([])
    }
  }

  /// APNs reported a member's token as unregistered. Returns whether the member is over because of that.
  /// - Parameter at: since when, Unix milliseconds.
  package func unregistered(
    _ token: [UInt8], of id: ActivityID, in scope: AppScope, ordinal: UInt32, devices: [UInt32] = [], at: Int64,
    then: @escaping Then<Bool>
  ) {
    change(id, [ordinal], scope, devices: devices, hasTexts: false, then) { draft, now in
      .success(draft.members[0]?.unregistered(token, at: at, now: now) ?? false)
    }
  }

  /// The devices that a job ended the activity for, and that nothing can tell.
  package func outOfReach(
    _ ordinals: [UInt32], of id: ActivityID, in scope: AppScope, then: @escaping Then<[UInt32]>
  ) {
    change(id, ordinals, scope, hasTexts: false, then) { draft, _ in
      .success(zip(ordinals, draft.members).filter { $1?.isOutOfReach == true }.map(\.0))
    }
  }

  /// An activity, and its newest update or end as a job (empty: none came); nil: it is not known.
  package func newest(
    _ id: ActivityID, in scope: AppScope, then: @escaping Then<(activity: ActivityState, body: [UInt8])?>
  ) {
    change(id, [], scope, hasTexts: true, then) { draft, _ in .success(draft.activity.map { ($0, draft.newest) }) }
  }

  /// Removes forgotten devices from an activity.
  package func forget(_ ordinals: [UInt32], of id: ActivityID, in scope: AppScope, then: @escaping Then<Void>) {
    change(id, ordinals, scope, hasTexts: false, then) { draft, _ in
      for index in ordinals.indices { draft.members[index] = nil }
      return .success(())
    }
  }

  /// Removes a device that is forgotten up to this time from an activity, unless it joined later. Returns whether it stays.
  func forget(
    _ ordinal: UInt32, of id: ActivityID, upTo at: Int64, from before: UInt32, to fingerprint: UInt32,
    in scope: AppScope, then: @escaping Then<Bool>
  ) {
    change(id, [ordinal], scope, hasTexts: false, then) { draft, now in
      guard draft.activity != nil, let member = draft.members[0] else { return .success(true) }
      // 0: not known.
      let isOwn = [0, before, fingerprint].contains(member.device)
      // When it was begun is not known: it is the device's of now if that is still the same person's.
      guard member.hasJoined(after: at, now: now) || isOwn && before == fingerprint && member.status == .starting else {
        draft.members[0] = nil
        return .success(false)
      }
      if member.device == before { draft.members[0]?.device = fingerprint }
      return .success(true)
    }
  }

  /// One device's push-to-start token is another's now.
  func succeed(_ move: StartMove, of id: ActivityID, in scope: AppScope, then: @escaping Then<Void>) {
    let devices = [move.from.fingerprint, move.to.fingerprint]
    change(id, [move.from.ordinal, move.to.ordinal], scope, devices: devices, hasTexts: false, then) { draft, now in
      if draft.activity != nil, draft.members[0] != nil, draft.members[1] == nil {
        draft.members[1] = draft.members[0]?.yieldStart(to: move.to.ordinal, now: now)
      }
      return .success(())
    }
  }

  // MARK: - Read, decide, store

  typealias Decide<Value> = (inout ActivityDraft, Int64) -> Result<Value, ActivityRegistryFailure>

  /// - Parameters:
  ///   - devices: the fingerprints of the devices with these ordinals; empty: not known.
  ///   - token: the update token whose holder is needed; empty: none.
  func change<Value>(
    _ id: ActivityID, _ ordinals: [UInt32], _ scope: AppScope, devices: [UInt32?] = [], token: [UInt8] = [],
    hasTexts: Bool, attempt: Int = 1, _ then: @escaping Then<Value>, _ decide: @escaping Decide<Value>
  ) {
    let keys = keys(scope)
    let again: (Bool, UInt32?) -> Void = { [self] hasTexts, member in
      guard attempt < ActivityRegistry.attemptsMaximum else { return then(.failure(.contended(id))) }
      let ordinals = member.map { [ordinals[0], $0] } ?? ordinals
      let devices = member == nil ? devices : [devices[0], nil]
      change(
        id, ordinals, scope, devices: devices, token: token, hasTexts: hasTexts, attempt: attempt + 1, then, decide)
    }
    let (names, arguments) = ActivityDraft.reading(id, ordinals, token: token, hasTexts: hasTexts, keys)
    redis.run(ActivityScript.read, keys: names, arguments) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard
        var draft = ActivityDraft(
          id, ordinals, devices: devices, token: token, hasTexts: hasTexts, keys, reply: reply)
      else {
        return then(
          .failure(.unreadable("\(names[0]) holds no activity of this version: does something else use its keys?")))
      }
      let decided = decide(&draft, now)
      // Of an unknown activity, the refused job is stored; no other refusal changes anything.
      if case .failure = decided, draft.activity != nil { return then(decided) }
      if let member = draft.neededMember { return again(hasTexts, member) }
      if draft.needsTexts && !hasTexts { return again(true, nil) }
      guard let (names, arguments) = draft.storing(now: now) else { return then(decided) }
      redis.run(ActivityScript.commit, keys: names, arguments) { result in
        guard let reply = ActivityRegistry.take(result, then) else { return }
        if reply == .integer(1) { then(decided) } else { again(hasTexts, nil) }
      }
    }
  }

  static func take<Value>(
    _ result: Result<RedisReply, RedisClient.Failure>, _ then: Then<Value>
  ) -> RedisReply? {
    switch result {
    case .success(let reply): return reply
    case .failure(let failure):
      then(.failure(ActivityRegistryFailure(failure)))
      return nil
    }
  }
}
