package import PushCore

/// What becomes of an activity whose update or end was cancelled.
extension ActivityRegistry {
  package enum TakenBack: Hashable, Sendable {
    /// The activity is over or not known.
    case isOver
    /// A newer one is the activity's newest. If that is cancelled, the activity may go on from this one.
    case isOlder
    /// The activity goes on from what was before.
    case restored
    /// It stays the activity's newest: some of it may have been sent, or what was before is not known any more.
    case stays(isEnd: Bool)
  }

  /// The job of an update or end for all members was cancelled, and all its devices have their end. May be called again.
  /// - Parameters:
  ///   - number: the job's revision.
  ///   - mayReach: some of it may have been sent.
  ///   - isLive: a device has registered an update token.
  ///   - isTaken: some of it may have been sent to a late token.
  ///   - isJob: whether a body is the job's.
  package func takeBack(
    _ id: ActivityID, in scope: AppScope, number: UInt32, mayReach: Bool, isLive: Bool, isTaken: Bool,
    isJob: @escaping ([UInt8]) -> Bool, then: @escaping Then<TakenBack>
  ) {
    change(id, [], scope, hasTexts: true, then) { draft, now in
      guard var activity = draft.activity, now < activity.expiresAt else { return .success(.isOver) }
      guard let content = activity.content, isJob(draft.body) else {
        if !mayReach { draft.past.remove(isJob) }
        guard let newest = activity.content?.revision.number, newest > number,
          draft.jobs.isTakenBack(newest, last: activity.lastNumber)
        else { return .success(.isOlder) }
        return .success(.restored)
      }
      let stays = TakenBack.stays(isEnd: content.isEnd)
      // Nothing changes where it stays.
      var (jobs, past, body) = (draft.jobs, draft.past, [UInt8]())
      past.remove(isJob)
      guard !mayReach, let before = past.last(before: content.revision.number) else { return .success(stays) }
      // A push to a late token is taken back by a newer one; an end is not, and without an earlier state there is none.
      if isTaken, content.isEnd || before.body.isEmpty { return .success(stays) }
      let revision = activity.takeBack(to: before, isLive: isLive, jobs: &jobs, now: now)
      if let revision {
        guard let again = ActivityJobWriter.again(before.body, as: revision) else { return .success(stays) }
        body = again
      }
      past.tookBack(newest: revision?.number ?? 0)
      (draft.activity, draft.jobs, draft.past) = (activity, jobs, past)
      (draft.body, draft.contentState) = (body, before.contentState)
      return .success(.restored)
    }
  }

  /// An end for some devices was cancelled, and surely not sent: the activity goes on for them. What they missed meanwhile is owed to them, as
  /// in `owed`. Whoever left by another such end, too, stays away, and is owed that one.
  /// - Returns: each body with those who are sent it; nil: the end is not known any more.
  package func comeBack(
    _ ordinals: [UInt32], devices: [UInt32], to id: ActivityID, in scope: AppScope, number: UInt32,
    then: @escaping Then<[(body: [UInt8], members: [Owed])]?>
  ) {
    change(id, ordinals, scope, devices: devices, hasTexts: true, then) { draft, now in
      guard let activity = draft.activity, draft.leaves.has(number), now < activity.expiresAt else {
        return .success(nil)
      }
      draft.leaves.cancel(number)
      let newest = activity.content.flatMap { $0.isBegun ? $0.revision.number : nil }
      var owed: [[UInt8]: [Owed]] = [:]
      for index in draft.members.indices {
        guard var member = draft.members[index], member.hasLeft || member.way == .lateClaimed else { continue }
        let isOwed = member.sent == number || member.way == .lateClaimed
        member.comeBack(from: number)
        let end = member.hasLeft ? draft.leaves.last(of: member) : nil
        let due = member.hasLeft ? isOwed ? end?.revision.number : nil : newest
        if let due, !member.token.isEmpty, !member.isOver, member.claim(due) {
          owed[end?.body ?? draft.newest, default: []].append(
            Owed(ordinal: ordinals[index], token: member.token, device: member.device))
        }
        draft.members[index] = member
      }
      return .success(owed.map { ($0.key, $0.value) }.sorted { $0.body.lexicographicallyPrecedes($1.body) })
    }
  }

  /// A member that is sent the newest state by a late push.
  package struct Owed: Hashable, Sendable {
    package var ordinal: UInt32
    package var token: [UInt8]
    /// The fingerprint of its device; 0: not known.
    package var device: UInt32
  }

  /// Of these members those that count as having a cancelled update or end: claims the newest state for them. Publish its pushes, or call
  /// this again.
  /// - Parameters:
  ///   - number: the revision of the cancelled one.
  ///   - stays: it is the newest: only late pushes of it, which its cancel ended, are owed.
  ///   - gaveWay: pushes of what was before gave way to the cancelled one: whoever may not have that is owed it.
  package func owed(
    _ ordinals: [UInt32], of id: ActivityID, in scope: AppScope, number: UInt32, stays: Bool, gaveWay: Bool = false,
    then: @escaping Then<(body: [UInt8], members: [Owed])>
  ) {
    change(id, ordinals, scope, hasTexts: true, then) { draft, now in
      guard let activity = draft.activity, let content = activity.content, content.isBegun, now < activity.expiresAt,
        content.revision.number == number || !stays && content.revision.number > number
      else { return .success(([], [])) }
      var owed: [Owed] = []
      for index in draft.members.indices {
        guard var member = draft.members[index],
          member.isOwed(content.revision.number, insteadOf: number, gaveWay: gaveWay)
        else { continue }
        _ = member.claim(content.revision.number)
        draft.members[index] = member
        owed.append(Owed(ordinal: ordinals[index], token: member.token, device: member.device))
      }
      return .success((draft.newest, owed))
    }
  }
}
