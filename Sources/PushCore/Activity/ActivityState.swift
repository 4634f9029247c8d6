/// The life of one Live Activity and its revision clock. What it is to one device is an `ActivityMember`.
///
/// Events in, answers out; whoever keeps the value in Redis commits it together with the members that changed, and only where nobody
/// else changed it meanwhile.
package struct ActivityState: Hashable, Sendable {
  package enum Phase: UInt8, CaseIterable, Sendable {
    /// A start was taken, and no device has registered an update token yet. May become active, ended or expired.
    case starting
    /// A device registered an update token: after a start, or because the app started the activity itself. May become ended or expired.
    case active
    /// An end was taken. Refuses starts and updates; answers late tokens with the end until it would have expired. Final.
    case ended
    /// 8 hours have passed since the start, when the system ends an activity by itself. Takes and answers nothing. Final.
    case expired

    package var name: String { "\(self)" }
  }

  /// The newest state that an update or the end gave.
  package struct Content: Hashable, Sendable {
    package let revision: ActivityRevision
    package let isEnd: Bool
    /// Pushes of it may be on their way. Until then a newer one takes its place, and its timestamp.
    package internal(set) var isBegun: Bool
  }

  /// The system ends an activity so long after its start.
  package static let lifeMilliseconds: Int64 = 8 * 3_600_000
  /// The lock screen shows it for four more hours. Then no device knows it, and neither do we. Well below the 24 hours after which an
  /// ordinal may mean another device.
  package static let memoryMilliseconds: Int64 = 12 * 3_600_000

  /// Unix milliseconds: of the start, or of the first update token.
  package let createdAt: Int64
  /// The Swift type of its attributes, as the start gave it; empty where the app started it itself.
  package internal(set) var attributesType: String
  /// Of the start's payload, without its timestamp; nil where the app started it itself.
  package internal(set) var startDigest: UInt64?
  package internal(set) var startRevision: ActivityRevision?
  package internal(set) var content: Content?
  /// The newest end that was for some devices only.
  package internal(set) var leave: ActivityRevision?
  /// The newest revision's number, whatever it was for; 0: none.
  package internal(set) var lastNumber: UInt32 = 0
  /// The newest timestamp that may be on its way to a device, Unix seconds.
  package internal(set) var sentTimestamp: Int64 = 0
  var storedPhase: Phase

  init(createdAt: Int64, phase: Phase) {
    self.createdAt = createdAt
    storedPhase = phase
    attributesType = ""
  }

  /// - Parameter now: Unix milliseconds, as everywhere here.
  package func phase(now: Int64) -> Phase {
    storedPhase != .ended && now >= expiresAt ? .expired : storedPhase
  }

  package var expiresAt: Int64 { createdAt + ActivityState.lifeMilliseconds }
  /// Its keys end.
  package var forgottenAt: Int64 { createdAt + ActivityState.memoryMilliseconds }

  // MARK: - Jobs

  /// A job starts the activity, or adds devices to one that runs.
  /// - Parameters:
  ///   - digest: of the payload without its timestamp.
  ///   - job: the word of its id; a job that comes twice gets the same answer.
  package static func start(
    _ activity: inout ActivityState?, type: String, digest: UInt64, job: UInt64, jobs: inout ActivityJobs, now: Int64
  ) throws(ActivityRefusal) -> ActivityRevision {
    var state = activity ?? ActivityState(createdAt: now, phase: .starting)
    try state.requireRunning(now)
    if let known = state.startDigest, let revision = state.startRevision {
      guard known == digest else { throw .otherPayload }
      return revision
    }
    let revision = state.next(job, &jobs, now)
    state.sentTimestamp = revision.timestamp
    state.startDigest = digest
    state.startRevision = revision
    state.attributesType = type
    activity = state
    return revision
  }

  /// What becomes of an update or an end.
  package enum Revised: Hashable, Sendable {
    /// Its pushes go out now.
    case begun(ActivityRevision)
    /// Its pushes go out after so long, when its timestamp has come, by `begin`: an activity takes one update a second.
    case waits(ActivityRevision, milliseconds: Int64)
    /// A newer one came before its pushes went out: nothing is sent.
    case superseded(number: UInt32, by: UInt32)
  }

  /// A job updates or ends the activity for all its members.
  package static func revise(
    _ activity: inout ActivityState?, isEnd: Bool, job: UInt64, jobs: inout ActivityJobs, now: Int64
  ) throws(ActivityRefusal) -> Revised {
    guard var state = activity else { throw .unknown }
    if let number = jobs.number(of: job, last: state.lastNumber) {
      // It came again. Where a newer one has come since, that one goes to every member.
      return ActivityState.begin(&activity, number: number, now: now)
    }
    try state.requireRunning(now)
    let revision = state.next(job, &jobs, now)
    state.content = Content(revision: revision, isEnd: isEnd, isBegun: false)
    if isEnd { state.storedPhase = .ended }
    activity = state
    return begin(&activity, number: revision.number, now: now)
  }

  /// The pushes of a revision shall go out: those of one that waited, when its time has come.
  package static func begin(_ activity: inout ActivityState?, number: UInt32, now: Int64) -> Revised {
    guard var state = activity, var content = state.content, content.revision.number == number else {
      return .superseded(number: number, by: activity?.content?.revision.number ?? number)
    }
    let wait = content.revision.timestamp * 1_000 - now
    if !content.isBegun && wait > 0 { return .waits(content.revision, milliseconds: wait) }
    content.isBegun = true
    state.content = content
    state.sentTimestamp = max(state.sentTimestamp, content.revision.timestamp)
    activity = state
    return .begun(content.revision)
  }

  /// A job ends the activity for some devices, members or not; the others keep what they show. All of them leave at once, so that no
  /// newer update goes to one before its end does.
  package static func leave(
    _ activity: inout ActivityState?, _ members: inout [ActivityMember?], job: UInt64, jobs: inout ActivityJobs,
    now: Int64
  ) throws(ActivityRefusal) -> ActivityRevision {
    guard var state = activity else { throw .unknown }
    if let number = jobs.number(of: job, last: state.lastNumber), let leave = state.leave, leave.number == number {
      return leave
    }
    try state.requireRunning(now)
    let revision = state.next(job, &jobs, now)
    state.sentTimestamp = revision.timestamp
    state.leave = revision
    activity = state
    for index in members.indices {
      var member = members[index] ?? ActivityMember()
      member.leave()
      members[index] = member
    }
    return revision
  }

  private func requireRunning(_ now: Int64) throws(ActivityRefusal) {
    switch phase(now: now) {
    case .starting, .active: return
    case .ended: throw .ended
    case .expired: throw .expired
    }
  }

  /// The clock's next revision. A timestamp that surely no device has seen is used again.
  private mutating func next(_ job: UInt64, _ jobs: inout ActivityJobs, _ now: Int64) -> ActivityRevision {
    lastNumber += 1
    jobs.append(job)
    return ActivityRevision(number: lastNumber, timestamp: max(now / 1_000, sentTimestamp + 1))
  }

  // MARK: - Devices

  /// What a registration of an update token did.
  package enum Registered: Hashable, Sendable {
    /// It changed nothing: an older one than what is known, or the activity is over for good.
    case ignored
    case stored
    /// It is stored, and the device must be sent a state that it has not seen: the newest, or the end where it shall have the
    /// activity no more. The state is the device's by now: whoever reads this publishes that push, or registers again.
    case late(ActivityRevision, isLeave: Bool)
    /// The activity is over on this device.
    case over
  }

  /// A device registered its update token for the activity.
  /// - Parameters:
  ///   - token: empty: the activity is over on this device.
  ///   - at: when the device said so, Unix milliseconds.
  package static func register(
    _ activity: inout ActivityState?, _ member: inout ActivityMember?, token: [UInt8], at: Int64, now: Int64
  ) -> Registered {
    if activity == nil && (token.isEmpty || at <= now - lifeMilliseconds) { return .ignored }
    var state = activity ?? ActivityState(createdAt: min(at, now), phase: .active)
    guard now < state.expiresAt else { return .ignored }
    var known = member ?? ActivityMember()
    switch known.register(token, at: at) {
    case .older:
      return .ignored
    case .over:
      member = known
      return .over
    case .taken:
      break
    }
    if state.storedPhase == .starting { state.storedPhase = .active }
    defer {
      activity = state
      member = known
    }
    if known.hasLeft, let leave = state.leave {
      return known.claim(leave.number) ? .late(leave, isLeave: true) : .stored
    }
    guard let content = state.content, known.claim(content.revision.number) else { return .stored }
    state.content?.isBegun = true
    state.sentTimestamp = max(state.sentTimestamp, content.revision.timestamp)
    return .late(content.revision, isLeave: false)
  }

  /// What a push to one member carries.
  package struct Push: Hashable, Sendable {
    package var revision: UInt32
    /// It answers a late token; else it is one of the pushes to all.
    package var isLate: Bool
    /// It ends the activity for this device alone.
    package var isLeave: Bool

    package init(revision: UInt32, isLate: Bool = false, isLeave: Bool = false) {
      self.revision = revision
      self.isLate = isLate
      self.isLeave = isLeave
    }
  }

  /// Why a device is sent nothing, and is no failure.
  package enum Skip: Hashable, Sendable, CaseIterable {
    /// It is no member, or its activity is over.
    case over
    /// It was started and has not registered an update token; it gets the newest state when it does.
    case noToken
    /// Its late push carries the same revision.
    case sentLate
    /// The activity was ended for this device.
    case left
    /// It was started before, or sent the alert instead, or started it itself.
    case started
  }

  package enum Resolved: Hashable, Sendable {
    /// Send to this token, registered at this time (Unix milliseconds).
    case send([UInt8], registeredAt: Int64)
    /// A newer revision was sent to this device, or is the activity's end.
    case superseded(by: UInt32)
    case skipped(Skip)
  }

  /// A push is about to be sent to a member: to which token, if at all. Marks it as sent; the same push may ask again.
  package func resolve(_ push: Push, _ member: inout ActivityMember?, now: Int64) -> Resolved {
    guard now < expiresAt, var known = member else { return .skipped(.over) }
    if let content, content.isEnd, !push.isLeave, push.revision < content.revision.number {
      return .superseded(by: content.revision.number)
    }
    let resolved = known.resolve(push)
    member = known
    return resolved
  }

  /// A start is about to be sent to a device: whether it is. Marks it as started; the same job may ask again.
  /// - Parameters:
  ///   - job: the start's, of which 32 bits are kept: two starts of one activity have the same ones at odds of four billion to one,
  ///     and then a device may be started twice.
  ///   - isAlert: it is sent the fallback alert instead. Nobody is sent both.
  package func resolveStart(_ job: UInt64, isAlert: Bool = false, _ member: inout ActivityMember?, now: Int64) -> Skip?
  {
    switch phase(now: now) {
    case .starting, .active: break
    case .ended, .expired: return .over
    }
    var known = member ?? ActivityMember()
    let isOurs = known.start(UInt32(truncatingIfNeeded: job), isAlert: isAlert, at: now)
    member = known
    return isOurs ? nil : .started
  }
}
