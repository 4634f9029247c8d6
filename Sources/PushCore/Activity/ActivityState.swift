/// The life of one Live Activity and its revision clock. Its state on one device is an `ActivityMember`.
///
/// Pure: events in, answers out. The caller stores the new state in Redis together with the changed members, and only
/// if nobody else changed it meanwhile.
package struct ActivityState: Hashable, Sendable {
  package enum Phase: UInt8, CaseIterable, Sendable {
    /// A start was accepted, and no device has registered an update token. May become active, ended or expired.
    case starting
    /// A device registered an update token: after a start, or because the app started the activity itself. May become
    /// ended or expired.
    case active
    /// An end was accepted. Refuses starts and updates, and takes further ends, since its pushes may reach nobody; answers late tokens with the
    /// newest end until it would have expired. Final.
    case ended
    /// 8 hours after the start, when the system ends an activity itself. Accepts and answers nothing. Final.
    case expired

    package var name: String { "\(self)" }
  }

  /// The newest state of an update or the end.
  package struct Content: Hashable, Sendable {
    package let revision: ActivityRevision
    /// In the order of jobs (`JobOrder`): older ones come too late. 0: not known.
    package let place: Int64
    package let isEnd: Bool
    /// Of an end without a content state: the place of the update whose state it shows. One that comes before the end's pushes begin, and is
    /// newer than that, gives its state. nil: it has its own.
    package internal(set) var shownPlace: Int64?
    /// Its pushes may be in progress. Until then a newer one replaces it, and uses its timestamp.
    package internal(set) var isBegun: Bool
  }

  /// How updates reach the devices that starts name. Each start decides, until there is a channel: it counts the activity's devices with its own.
  package enum UpdateWay: Hashable, Sendable {
    /// Each by its own token. May become `awaited` or `channel`, by a later start: earlier devices keep their tokens.
    case tokens
    /// On this broadcast channel, and by token to those that have no channels. Final.
    case channel(ChannelID)
    /// The devices are being counted. May become any other.
    case undecided
    /// They are so many that a channel is being created. May become `tokens` or `channel`.
    case awaited

    package var isDecided: Bool {
      switch self {
      case .tokens, .channel: true
      case .undecided, .awaited: false
      }
    }

    fileprivate func mayBecome(_ other: UpdateWay) -> Bool {
      switch self {
      case .channel: false
      case .undecided: true
      case .tokens, .awaited: other != .undecided
      }
    }
  }

  /// The system ends an activity this long after its start.
  package static let lifeMilliseconds: Int64 = 8 * 3_600_000
  /// The lock screen shows it for four more hours. After that no device knows it, and we forget it. Well below the 24
  /// hours after which an ordinal may belong to another device.
  package static let memoryMilliseconds: Int64 = 12 * 3_600_000

  /// A revision whose timestamp is later than this is not waited for: the clock that sent the one before was wrong.
  private static let waitMilliseconds: Int64 = 10_000
  /// A numbered end without a content state waits so long, a second more or less, for updates that were published just before it.
  private static let lastStateSeconds: Int64 = 2

  /// Unix milliseconds: of the start, or of the first update token.
  package let createdAt: Int64
  /// The Swift type of its attributes, from the start; empty if the app started it itself.
  package internal(set) var attributesType: String
  /// Of the start's payload without its timestamp; nil if the app started it itself.
  package internal(set) var startDigest: UInt64?
  package internal(set) var startRevision: ActivityRevision?
  package internal(set) var updateWay = UpdateWay.tokens
  package internal(set) var content: Content?
  /// The newest end for some devices only.
  package internal(set) var leave: ActivityRevision?
  /// The number of the newest revision of any kind; 0: none.
  package internal(set) var lastNumber: UInt32 = 0
  /// The newest timestamp that may have been sent to a device, Unix seconds.
  package internal(set) var sentTimestamp: Int64 = 0
  var storedPhase: Phase

  init(createdAt: Int64, phase: Phase) {
    self.createdAt = createdAt
    storedPhase = phase
    attributesType = ""
  }

  /// - Parameter now: Unix milliseconds, as in all functions here.
  package func phase(now: Int64) -> Phase {
    storedPhase != .ended && now >= expiresAt ? .expired : storedPhase
  }

  /// Updates come on it to the devices that were started with it; nil: there is none, or none yet.
  package var channel: ChannelID? { if case .channel(let id) = updateWay { id } else { nil } }

  package var expiresAt: Int64 { createdAt + ActivityState.lifeMilliseconds }
  /// Its keys expire.
  package var forgottenAt: Int64 { createdAt + ActivityState.memoryMilliseconds }

  // MARK: - Jobs

  /// A job starts the activity, or adds devices to a running one.
  /// - Parameters:
  ///   - digest: of the payload without its timestamp.
  ///   - way: of its updates, where no start has given it a channel. A start that cannot decide yet calls this again once it can; the activity is
  ///     known meanwhile, so that updates may come.
  ///   - job: the word of its id; a job that comes twice gets the same answer.
  package static func start(
    _ activity: inout ActivityState?, type: String, digest: UInt64, way: UpdateWay = .tokens, job: UInt64,
    jobs: inout ActivityJobs, now: Int64
  ) throws(ActivityRefusal) -> ActivityRevision {
    var state = activity ?? ActivityState(createdAt: now, phase: .starting)
    try state.require(isEnd: false, now)
    if let known = state.startDigest, let revision = state.startRevision {
      guard known == digest else { throw .otherPayload }
      if state.updateWay.mayBecome(way) {
        state.updateWay = way
        activity = state
      }
      return revision
    }
    var revision = state.next(job, &jobs, now)
    if let content = state.content {
      // The app started it itself, and it was updated since. A start is older than every update, also on the devices that it starts.
      revision = ActivityRevision(number: revision.number, timestamp: content.revision.timestamp - 1)
    }
    state.sentTimestamp = max(state.sentTimestamp, revision.timestamp)
    state.startDigest = digest
    state.startRevision = revision
    state.attributesType = type
    state.updateWay = way
    activity = state
    return revision
  }

  /// An activity whose start Redis lost, and whose start's pages are still to be sent; nil: the system has ended it.
  /// - Parameter timestamp: of the pages' payload, Unix seconds; nil: not known.
  package static func restored(type: String, timestamp: Int64?, now: Int64) -> ActivityState? {
    let timestamp = min(timestamp ?? .max, now / 1_000)
    guard timestamp > (now - lifeMilliseconds) / 1_000 else { return nil }
    var state = ActivityState(createdAt: timestamp * 1_000, phase: .starting)
    state.attributesType = type
    state.sentTimestamp = timestamp
    return state
  }

  /// The result of an update or an end.
  package enum Revised: Hashable, Sendable {
    /// Its pushes are sent now.
    case begun(ActivityRevision)
    /// Its pushes are sent after this delay, when its timestamp is due, by `begin`: an activity takes one update a
    /// second.
    case waits(ActivityRevision, milliseconds: Int64)
    /// A newer one came before its pushes were sent: nothing is sent. `number`: its revision; 0: it came too late to get one.
    case superseded(number: UInt32, by: UInt32)
    /// The activity is not known. Its start may be under way: ask again.
    case early
  }

  /// A job updates or ends the activity for all its members. The newest update by its order decides what they show, whenever it comes; an end
  /// ends it also after a newer update: where two producers' clocks differ, the activity would be shown for ever.
  /// - Parameters:
  ///   - showsLast: it is an end without a content state, which shows the last one.
  ///   - mayWait: for its start, if the activity is not known.
  package static func revise(
    _ activity: inout ActivityState?, isEnd: Bool, showsLast: Bool = false, order: JobOrder = .arrival,
    job: UInt64,
    jobs: inout ActivityJobs, mayWait: Bool = false, now: Int64
  ) throws(ActivityRefusal) -> Revised {
    guard var state = activity else { return try unknown(job, &jobs, mayWait) }
    switch jobs.find(job, last: state.lastNumber) {
    case .refused: throw .unknown
    // If a newer revision came meanwhile, that one goes to every member.
    case .revision(let number): return ActivityState.begin(&activity, number: number, now: now)
    case .new: break
    }
    let newest = state.content?.place ?? 0
    let isOlder = order.isOlder(than: newest)
    if let content = state.content, isOlder, !isEnd || content.isEnd {
      if !isEnd, !content.isBegun, let shown = content.shownPlace, !order.isOlder(than: shown) {
        // Another place than before, although it may be as new: the caller stores its state where this changes.
        state.content?.shownPlace = max(order.place(after: shown), shown &+ 1)
        activity = state
      }
      return .superseded(number: 0, by: content.revision.number)
    }
    try state.require(isEnd: isEnd, now)
    let waits = showsLast && order.isNumbered ? lastStateSeconds : 0
    let revision = state.next(job, &jobs, now + waits * 1_000)
    state.content = Content(
      revision: revision, place: order.place(after: isOlder ? 0 : newest), isEnd: isEnd,
      shownPlace: showsLast ? newest : nil,
      isBegun: false)
    if isEnd { state.storedPhase = .ended }
    activity = state
    return begin(&activity, number: revision.number, now: now)
  }

  /// Of two copies of a job one must not be refused, and the other taken because the start came between them.
  private static func unknown(
    _ job: UInt64, _ jobs: inout ActivityJobs, _ mayWait: Bool
  ) throws(ActivityRefusal) -> Revised {
    if mayWait, case .new = jobs.find(job, last: 0) { return .early }
    jobs.refuse(job)
    throw .unknown
  }

  /// Begins the pushes of a revision; one that waited begins when its timestamp is due.
  package static func begin(_ activity: inout ActivityState?, number: UInt32, now: Int64) -> Revised {
    guard var state = activity, var content = state.content, content.revision.number == number else {
      return .superseded(number: number, by: activity?.content?.revision.number ?? number)
    }
    let wait = content.revision.timestamp * 1_000 - now
    if !content.isBegun && wait > 0 && wait <= waitMilliseconds { return .waits(content.revision, milliseconds: wait) }
    content.isBegun = true
    state.content = content
    state.sentTimestamp = max(state.sentTimestamp, content.revision.timestamp)
    activity = state
    return .begun(content.revision)
  }

  /// A job ends the activity for some devices, members or not; the others keep their state. All of them leave at once,
  /// so that no newer update reaches one before its end does. An older job than the end for all comes too late; updates do not matter to it.
  /// - Parameter mayWait: as in `revise`.
  package static func leave(
    _ activity: inout ActivityState?, _ members: inout [ActivityMember?], order: JobOrder = .arrival, job: UInt64,
    jobs: inout ActivityJobs, mayWait: Bool = false, now: Int64
  ) throws(ActivityRefusal) -> Revised {
    guard var state = activity else { return try unknown(job, &jobs, mayWait) }
    var earlier: UInt32 = 0
    switch jobs.find(job, last: state.lastNumber) {
    case .refused: throw .unknown
    case .revision(let number):
      if let leave = state.leave, leave.number == number { return .begun(leave) }
      earlier = number
      // A newer such job came meanwhile. This one's devices have left, perhaps without their end: they get it, even where the activity has
      // ended for all others since.
      if now >= state.expiresAt { throw .expired }
    case .new:
      if let content = state.content, content.isEnd, order.isOlder(than: content.place) {
        return .superseded(number: 0, by: content.revision.number)
      }
      try state.require(isEnd: true, now)
    }
    let revision = state.next(job, &jobs, now)
    state.sentTimestamp = revision.timestamp
    state.leave = revision
    activity = state
    for index in members.indices {
      var member = members[index] ?? ActivityMember()
      member.leave(revision.number, insteadOf: earlier)
      members[index] = member
    }
    return .begun(revision)
  }

  /// Why a job would be refused, for one that is only counted; nil: it would not be.
  /// - Parameter startDigest: of a start's payload without its timestamp; nil: the job is an update or end.
  package static func refusal(
    _ activity: ActivityState?, startDigest: UInt64?, isEnd: Bool, now: Int64
  ) -> ActivityRefusal? {
    guard let activity else { return startDigest == nil ? .unknown : nil }
    do throws(ActivityRefusal) { try activity.require(isEnd: isEnd, now) } catch { return error }
    if let startDigest, let known = activity.startDigest, known != startDigest { return .otherPayload }
    return nil
  }

  /// The newest state, once its pushes may be in progress: it is newer than the activity's start. Devices that are started with the channel
  /// from then on have missed its broadcast.
  package var newerThanStart: ActivityRevision? {
    guard let content, content.isBegun, startRevision != nil else { return nil }
    return content.revision
  }

  /// Call before a broadcast: whether a newer revision's broadcast is in progress, so that this one must not follow it.
  /// - Parameter timestamp: of its payload; nil: not known.
  package func isOvertaken(_ revision: UInt32, timestamp: Int64? = nil) -> Bool {
    guard let content, content.isBegun else { return false }
    return timestamp.map { $0 < content.revision.timestamp } ?? (revision < content.revision.number)
  }

  /// Whether it takes a job.
  private func require(isEnd: Bool, _ now: Int64) throws(ActivityRefusal) {
    switch phase(now: now) {
    case .starting, .active: return
    case .ended where isEnd && now < expiresAt: return
    case .ended: throw .ended
    case .expired: throw .expired
    }
  }

  /// Gives no timestamp up to this one (Unix seconds) to a revision any more.
  package mutating func pass(_ timestamp: Int64) { sentTimestamp = max(sentTimestamp, timestamp) }

  /// The clock's next revision. Reuses a timestamp if certainly no device has seen it.
  mutating func next(_ job: UInt64, _ jobs: inout ActivityJobs, _ now: Int64) -> ActivityRevision {
    lastNumber += 1
    jobs.append(job)
    return ActivityRevision(number: lastNumber, timestamp: max(now / 1_000, sentTimestamp + 1))
  }

  // MARK: - Devices

  /// The result of registering an update token.
  package enum Registered: Hashable, Sendable {
    /// Nothing changed: a newer registration is known, or the activity is over for good.
    case ignored
    case stored
    /// Stored, and the device must be sent a state that it has not seen: the newest one, or the end if it left the
    /// activity. The state is claimed for the device: the caller must publish that push, or register again.
    case late(ActivityRevision, isLeave: Bool)
    /// The activity is over on this device.
    case over
  }

  /// A device registered its update token for the activity.
  /// - Parameters:
  ///   - token: empty: the activity is over on this device.
  ///   - at: when the device reported it, Unix milliseconds.
  ///   - leaves: nil: they were not read; then a late end's revision is the newest's.
  package static func register(
    _ activity: inout ActivityState?, _ member: inout ActivityMember?, token: [UInt8], at: Int64,
    leaves: ActivityLeaves? = nil, now: Int64
  ) -> Registered {
    if activity == nil && (token.isEmpty || at <= now - lifeMilliseconds) { return .ignored }
    var state = activity ?? ActivityState(createdAt: min(at, now), phase: .active)
    guard now < state.expiresAt else { return .ignored }
    var known = member ?? ActivityMember()
    switch known.register(token, at: at, now: now) {
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
    if known.hasLeft, let newest = state.leave {
      guard let leave = leaves.map({ $0.last(of: known)?.revision }) ?? newest, known.claim(leave.number) else {
        return .stored
      }
      return .late(leave, isLeave: true)
    }
    // The pages of an end that waits for the updates before it go to this member too; to begin it now would supersede them.
    guard let content = state.content, content.isBegun || content.shownPlace == nil,
      known.claim(content.revision.number)
    else { return .stored }
    state.content?.isBegun = true
    state.sentTimestamp = max(state.sentTimestamp, content.revision.timestamp)
    return .late(content.revision, isLeave: false)
  }

  /// A push to one member.
  package struct Push: Hashable, Sendable {
    package var revision: UInt32
    /// It answers a late token; else it is one of the pushes to all.
    package var isLate: Bool
    /// It ends the activity for this device only.
    package var isLeave: Bool
    /// It is not sent any more, because its time is over; the answer is for its outcome.
    package var isOver: Bool
    /// Its payload's, Unix seconds; nil: not known.
    package var timestamp: Int64?
    /// Of a leave: its job's newest revision. A job that came twice may have two, and pages with each.
    package var newestOfJob: UInt32?

    package init(
      revision: UInt32, timestamp: Int64? = nil, isLate: Bool = false, isLeave: Bool = false, isOver: Bool = false
    ) {
      self.revision = revision
      self.timestamp = timestamp
      self.isLate = isLate
      self.isLeave = isLeave
      self.isOver = isOver
    }
  }

  /// Why nothing is sent to a device, without being a failure.
  package enum Skip: Hashable, Sendable, CaseIterable {
    /// It is not a member, or its activity is over.
    case over
    /// It was started and has not registered an update token; it gets the newest state when it does.
    case noToken
    /// Its late push and a page have the same revision, and the other of the two was first, or will be sent.
    case sentAlready
    /// The activity was ended for this device.
    case left
    /// It was or is being started by another job, or sent the alert instead, or started the activity itself.
    case started
  }

  package enum Resolved: Hashable, Sendable {
    /// Send to this token, registered at this time (Unix milliseconds).
    case send([UInt8], registeredAt: Int64)
    /// Nothing is sent any more: a newer revision was sent to this device, or ends the activity, or the device has left it. The push may have
    /// been sent to this token before (empty: there is none).
    case superseded(by: UInt32, [UInt8])
    case skipped(Skip)
    /// A page of the same job with a newer revision is sent to it, and tells its end.
    case elsewhere
  }

  /// Call before a push to a member: returns its token, if any, and marks the push as sent. The same push may ask
  /// again.
  package func resolve(_ push: Push, _ member: inout ActivityMember?, now: Int64) -> Resolved {
    guard now < expiresAt, var known = member else { return .skipped(.over) }
    if let timestamp = push.timestamp, hasLost(push, timestamp) {
      return known.resolveLost(push, newest: begun(after: timestamp))
    }
    if let content, content.isEnd, !push.isLeave, push.revision < content.revision.number, !known.token.isEmpty {
      return .superseded(by: content.revision.number, known.token)
    }
    let resolved = known.resolve(push)
    member = known
    return resolved
  }

  /// Redis was restored to a time before this push's revision: the number is another revision's by now, or will be. Timestamps are not given
  /// twice (see `pass`).
  private func hasLost(_ push: Push, _ timestamp: Int64) -> Bool {
    guard let newest = push.isLeave ? leave : content?.revision else { return true }
    return push.revision == newest.number
      ? timestamp != newest.timestamp
      : push.revision > newest.number || timestamp >= newest.timestamp
  }

  /// The newest state, if it is newer than this timestamp and its pushes may be in progress.
  private func begun(after timestamp: Int64) -> ActivityRevision? {
    content.flatMap { $0.isBegun && $0.revision.timestamp > timestamp ? $0.revision : nil }
  }

  /// The answer about a start to a device.
  package enum Started: Hashable, Sendable {
    case send
    /// This job may have started the device before, and now it has the activity, or had it: nothing is sent any more.
    case superseded
    case skipped(Skip)
  }

  /// Call before a start to a device: marks the device as starting, until its end is told to `ActivityMember.startEnded`. The same job may ask
  /// again. A start that is not sent any more marks nothing: another one may have the device at once.
  /// - Parameters:
  ///   - job: the start's, of which 32 bits are kept: two starts of one activity have the same ones at odds of four billion to one,
  ///     and then a device may be started twice.
  ///   - isAlert: it is sent the fallback alert instead. Nobody is sent both.
  ///   - inputPushChannel: the channel that the start names.
  ///   - isOver: it is not sent any more, because its time is over; the answer is for its outcome.
  package func resolveStart(
    _ job: UInt64, isAlert: Bool = false, inputPushChannel: String? = nil, isOver: Bool = false,
    _ member: inout ActivityMember?, now: Int64
  ) -> Started {
    let job = UInt32(truncatingIfNeeded: job)
    switch phase(now: now) {
    case .starting, .active: break
    case .ended, .expired:
      return member?.start.map { $0.job == job && $0.isAlert == isAlert } == true ? .superseded : .skipped(.over)
    }
    var known = member ?? ActivityMember()
    let isOnChannel = !isAlert && inputPushChannel.map { channel?.text.hasBytes(of: $0) ?? false } ?? false
    let answer = known.start(job, isAlert: isAlert, isOnChannel: isOnChannel)
    if !isOver { member = known }
    return answer
  }
}
