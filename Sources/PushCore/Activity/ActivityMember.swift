/// The state of one activity on one device.
package struct ActivityMember: Hashable, Sendable {
  package enum Status: UInt8, CaseIterable, Sendable {
    /// A start, or its fallback alert, is on its way, and APNs has not accepted it. May become any other; where it surely was not accepted in
    /// the end, the device is no member any more.
    case starting
    /// APNs accepted a start, or may have, and no update token came. The activity may not show: APNs accepts stale start tokens too. May
    /// become any other but `starting` and `alerted`.
    case started
    /// It had no start token, and APNs accepted the start's fallback alert, or may have. May become any other but `starting` and `started`.
    case alerted
    /// It has an update token. May become over or left.
    case live
    /// The user removed it, or APNs reported its token as unregistered. A newer token makes it live again.
    case over
    /// The activity was ended for this device only. Final.
    case left

    package var name: String { "\(self)" }
  }

  /// How the newest revision is sent to the device.
  package enum Way: UInt8, CaseIterable, Sendable {
    /// With the pages to all members.
    case page
    /// By a late push of its own, because its token came late; the claiming worker publishes it. Or by a page, if that is first.
    case lateClaimed
    /// A worker has taken up the late push.
    case lateTaken
    /// By the broadcast on the activity's channel, which its start named: the device has no update token.
    case channel
  }

  package struct Start: Hashable, Sendable {
    /// The job that starts it.
    package let job: UInt32
    /// When APNs accepted it, or may have, Unix seconds; 0: that is not known.
    package var at: UInt32 = 0
    /// The fallback alert was sent instead.
    package let isAlert: Bool
  }

  /// The fingerprint of its device's record; 0: not known. Another device that has the ordinal later is no member.
  package var device: UInt32 = 0
  package internal(set) var start: Start?
  /// Empty: none.
  package internal(set) var token: [UInt8] = []
  /// When the device registered its current state, Unix milliseconds.
  package internal(set) var changedAt: Int64 = 0
  /// When APNs reported the token as unregistered, Unix milliseconds; 0: not reported. Registrations of this token up
  /// to then are ignored; those of other tokens are not.
  package internal(set) var goneAt: Int64 = 0
  package internal(set) var isOver = false
  /// The revisions of the ends for this device alone, the newest last; 0: not known.
  package internal(set) var leaves: [UInt32] = []
  package var hasLeft: Bool { !leaves.isEmpty }
  /// The newest revision that may have been sent to this token; 0: none.
  package internal(set) var sent: UInt32 = 0
  package internal(set) var way = Way.page
  /// Which device has its push-to-start token since its start began: that is told how the start ends, too. Only while it is starting.
  package internal(set) var successor: UInt32?

  package init() {}

  package var status: Status {
    if hasLeft { return .left }
    if isOver { return .over }
    if !token.isEmpty { return .live }
    if let start, start.at == 0 { return .starting }
    return start?.isAlert == true ? .alerted : .started
  }

  /// Whether the device registered its state, or APNs accepted its start, after this time (Unix milliseconds).
  package func hasJoined(after at: Int64, now: Int64) -> Bool {
    hasChanged(since: at, now: now) || Int64(start?.at ?? 0) * 1_000 > at
  }

  enum Registered {
    case older, taken, over
  }

  /// Whether what is known is newer.
  private func hasChanged(since at: Int64, now: Int64) -> Bool {
    RegistrationTime(at: at, now: now).isOlder(than: changedAt)
  }

  /// The newest registration wins. At equal times, over wins, then the token that sorts last, so that order and
  /// duplicates do not matter.
  mutating func register(_ new: [UInt8], at: Int64, now: Int64) -> Registered {
    if hasChanged(since: at, now: now) || new == token && at <= goneAt { return .older }
    if at == changedAt && !new.isEmpty && (token.isEmpty && isOver || new.lexicographicallyPrecedes(token)) {
      return .older
    }
    changedAt = at
    let isNew = new != token || isOver
    goneAt = 0
    isOver = new.isEmpty
    if isNew {
      token = new
      sent = 0
      // An activity whose updates come on a channel has no update token: so this one's do not, or its start never came.
      way = .page
    }
    return isOver ? .over : .taken
  }

  /// Claims a revision that was not sent to this token for a late push. Also if an earlier claim was not taken up: its
  /// push may not have been published.
  package mutating func claim(_ revision: UInt32) -> Bool {
    if sent < revision {
      sent = revision
      way = .lateClaimed
      return true
    }
    return sent == revision && way == .lateClaimed
  }

  /// Whether it is to be sent the newest revision by a late push, because an older one was cancelled that it counts as having, or to which its
  /// own late push gave way; or, where that is the newest, whose late push was ended.
  /// - Parameter gaveWay: pushes in pages did so, too, and nobody knows to whom.
  package func isOwed(_ newest: UInt32, insteadOf cancelled: UInt32, gaveWay: Bool) -> Bool {
    if token.isEmpty || isOver || hasLeft { return false }
    let isLate = way == .lateClaimed || way == .lateTaken
    if newest == cancelled { return sent == newest && isLate }
    if sent < newest { return gaveWay || isLate || sent == cancelled }
    return sent == newest && way == .lateClaimed
  }

  mutating func resolve(_ push: ActivityState.Push) -> ActivityState.Resolved {
    // Of two pages of one leave, the newer one tells the end: the older one waits for it. Where Redis lost what it had, the number may be
    // another job's, whose page was under way: then nobody tells, until the time of this one is over.
    if sent > push.revision, way == .page, sent == push.newestOfJob {
      return push.isOver ? .superseded(by: sent, token) : .elsewhere
    }
    if isOver || hasLeft && !push.isLeave {
      // The push may have been sent to this token before.
      if !token.isEmpty && sent >= push.revision { return .superseded(by: sent, token) }
      return .skipped(isOver ? .over : .left)
    }
    if token.isEmpty { return .skipped(.noToken) }
    if sent > push.revision { return .superseded(by: sent, token) }
    if sent == push.revision {
      switch way {
      case .page where push.isLate, .lateTaken where !push.isLate, .channel where !push.isLate,
        .lateClaimed where push.isOver && !push.isLate:
        return .skipped(.sentAlready)
      // A page takes a claim over: whoever claimed may have ended before it published, after another had stored the same registration.
      case .page, .lateClaimed, .lateTaken, .channel: break
      }
    }
    sent = push.revision
    way = push.isLate ? .lateTaken : .page
    return .send(token, registeredAt: changedAt)
  }

  /// A push whose revision Redis lost is sent where nothing newer is, and changes nothing: its number must not stand in a newer one's way.
  func resolveLost(_ push: ActivityState.Push, newest: ActivityRevision?) -> ActivityState.Resolved {
    if isOver || hasLeft && !push.isLeave { return .skipped(isOver ? .over : .left) }
    if token.isEmpty { return .skipped(.noToken) }
    if let newest, !push.isLeave { return .superseded(by: newest.number, token) }
    return .send(token, registeredAt: changedAt)
  }

  /// A page of this revision was to be sent to this token; perhaps nobody has sent it.
  package func isTaken(by push: ActivityState.Push) -> Bool {
    !token.isEmpty && !isOver && (!hasLeft || push.isLeave) && sent == push.revision && way == .page
  }

  private static let leavesMaximum = 3

  /// The activity ends for this device alone.
  /// - Parameter earlier: another revision of the same end; 0: it has none.
  mutating func leave(_ revision: UInt32, insteadOf earlier: UInt32 = 0) {
    leaves.removeAll { $0 == earlier || $0 == revision }
    leaves.append(revision)
    if leaves.count > ActivityMember.leavesMaximum { leaves.removeFirst() }
  }

  /// That end was cancelled, and surely not sent. Another one may have ended the activity for it before. What it was sent last counts no
  /// more: it may have given way to the end.
  package mutating func comeBack(from revision: UInt32) {
    leaves.removeAll { $0 == revision }
    if hasLeft && sent != revision { return }
    sent = 0
    way = way == .channel ? .channel : .page
  }

  /// The activity was ended for this device alone, and nothing can tell it: no broadcast does. It shows what the channel brings, until it
  /// registers a token or the activity ends for all.
  package var isOutOfReach: Bool { hasLeft && !isOver && way == .channel }

  /// Whether this start, or the fallback alert in its place, goes out: the first of the two, or the same once more while nothing shows
  /// that it came.
  /// - Parameter isOnChannel: the start names the channel that updates come on.
  mutating func start(_ job: UInt32, isAlert: Bool = false, isOnChannel: Bool = false) -> ActivityState.Started {
    let isRunning = !token.isEmpty || isOver || hasLeft
    if let start {
      guard start.job == job && start.isAlert == isAlert else { return .skipped(.started) }
      return isRunning ? .superseded : .send
    }
    if isRunning { return .skipped(.started) }
    start = Start(job: job, isAlert: isAlert)
    if isOnChannel { way = .channel }
    return .send
  }

  /// The push of a start, or of its fallback alert, has ended. That may be told more than once, and by several copies of the push.
  /// - Parameters:
  ///   - hasReached: APNs accepted it, or may have. If it surely did not, another job may start this device.
  ///   - now: Unix milliseconds.
  /// - Returns: whether to delete the member: it has no other data.
  package mutating func startEnded(_ job: UInt64, isAlert: Bool, hasReached: Bool, now: Int64) -> Bool {
    guard let known = start, known.job == UInt32(truncatingIfNeeded: job), known.isAlert == isAlert, known.at == 0
    else {
      return false
    }
    successor = nil
    if hasReached { start?.at = UInt32(clamping: max(1, now / 1_000)) }
    return !hasReached && token.isEmpty && !isOver && !hasLeft
  }

  /// The job by whose start a successor is starting: another one, so that no page of the same start goes to the phone once more.
  package static func movedStart(_ job: UInt64) -> UInt64 {
    UInt64(UInt32(truncatingIfNeeded: job) &* 0x9E37_79B1 &+ 1)
  }

  /// The member that another device is by having this one's push-to-start token now: what was shown here shows there, so no job starts it. It
  /// is starting if this one is: nothing may come of that.
  /// - Parameter ordinal: the other device's.
  package mutating func yieldStart(to ordinal: UInt32, now: Int64) -> ActivityMember {
    var member = ActivityMember()
    if status == .starting {
      successor = ordinal
      member.start = start.map { Start(job: UInt32(ActivityMember.movedStart(UInt64($0.job))), isAlert: $0.isAlert) }
    } else {
      member.start = Start(job: 0, at: UInt32(clamping: max(1, now / 1_000)), isAlert: start?.isAlert ?? false)
    }
    member.way = way == .channel ? .channel : .page
    (member.isOver, member.leaves) = (isOver, leaves)
    return member
  }

  /// Another device registered this member's token. The newer registration has it; of two with the same time, the larger ordinal.
  /// - Parameter hasLarger: this member's ordinal is the larger one.
  /// - Returns: whether the other device has it. Then the activity is over for this one.
  package mutating func yields(_ taken: [UInt8], at: Int64, hasLarger: Bool, now: Int64) -> Bool {
    guard taken == token, !isOver else { return true }
    if hasChanged(since: at, now: now) || at == changedAt && hasLarger { return false }
    isOver = true
    goneAt = at
    return true
  }

  /// APNs reported the token as unregistered.
  /// - Parameter at: since when, Unix milliseconds.
  /// - Returns: whether that changed something; not if the device has registered since.
  package mutating func unregistered(_ gone: [UInt8], at: Int64, now: Int64) -> Bool {
    guard !gone.isEmpty, gone == token, !hasChanged(since: at, now: now), goneAt < at else {
      return false
    }
    isOver = true
    goneAt = at
    return true
  }
}
