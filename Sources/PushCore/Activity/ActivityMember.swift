/// What one activity is to one device.
package struct ActivityMember: Hashable, Sendable {
  package enum Status: UInt8, CaseIterable, Sendable {
    /// A start was sent and no update token came: APNs takes stale start tokens too, so it may show nothing. May become any other but
    /// `alerted`.
    case started
    /// It had no start token, and was sent the start's fallback alert. May become any other but `started`.
    case alerted
    /// It has an update token. May become over or left.
    case live
    /// It was swiped away, or APNs said that its token is none. A newer token makes it live again.
    case over
    /// The activity was ended for this device alone. Final.
    case left

    package var name: String { "\(self)" }
  }

  /// How the newest revision gets to the device.
  package enum Way: UInt8, CaseIterable, Sendable {
    /// With the pushes to all.
    case page
    /// By a push of its own, because its token came late; whoever claimed it publishes it.
    case lateClaimed
    /// That push was taken up.
    case lateTaken
  }

  package struct Start: Hashable, Sendable {
    /// Of the job that started it.
    package let job: UInt32
    /// Unix seconds.
    package let at: UInt32
    /// The fallback alert was sent in its place.
    package let isAlert: Bool
  }

  package internal(set) var start: Start?
  /// Empty: none.
  package internal(set) var token: [UInt8] = []
  /// When the device registered this, Unix milliseconds.
  package internal(set) var changedAt: Int64 = 0
  /// Since when APNs knows the token no more, Unix milliseconds; 0: it knows it. Registrations of this token up to then are of no use; those
  /// of another one are.
  package internal(set) var goneAt: Int64 = 0
  package internal(set) var isOver = false
  package internal(set) var hasLeft = false
  /// The newest revision that may have been sent to this token; 0: none.
  package internal(set) var sent: UInt32 = 0
  package internal(set) var way = Way.page

  package init() {}

  package var status: Status {
    if hasLeft { return .left }
    if isOver { return .over }
    if !token.isEmpty { return .live }
    return start?.isAlert == true ? .alerted : .started
  }

  enum Registered {
    case older, taken, over
  }

  /// The newest registration wins. Of two of one time, over wins, then the token that sorts last: in whatever order they come, and
  /// however often, the same one stays.
  mutating func register(_ new: [UInt8], at: Int64) -> Registered {
    if at < changedAt || new == token && at <= goneAt { return .older }
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
      way = .page
    }
    return isOver ? .over : .taken
  }

  /// A revision that was not sent to this token is its late push's from now on. Also where it was so before and nobody has taken that
  /// push up: it may not have been published.
  mutating func claim(_ revision: UInt32) -> Bool {
    if sent < revision {
      sent = revision
      way = .lateClaimed
      return true
    }
    return sent == revision && way == .lateClaimed
  }

  mutating func resolve(_ push: ActivityState.Push) -> ActivityState.Resolved {
    if hasLeft && !push.isLeave { return .skipped(.left) }
    if isOver { return .skipped(.over) }
    if token.isEmpty { return .skipped(.noToken) }
    if sent > push.revision { return .superseded(by: sent) }
    if sent == push.revision && way != .page && !push.isLate { return .skipped(.sentLate) }
    sent = push.revision
    way = push.isLate ? .lateTaken : .page
    return .send(token, registeredAt: changedAt)
  }

  /// The activity ends for this device alone.
  mutating func leave() { hasLeft = true }

  /// Whether this start, or the fallback alert in its place, goes out: the first of the two, or the same once more while nothing shows
  /// that it came.
  mutating func start(_ job: UInt32, isAlert: Bool = false, at now: Int64) -> Bool {
    guard token.isEmpty, !isOver, !hasLeft else { return false }
    if let start { return start.job == job && start.isAlert == isAlert }
    start = Start(job: job, at: UInt32(clamping: now / 1_000), isAlert: isAlert)
    return true
  }

  /// APNs refused the start for good: another job may start this device.
  /// - Returns: whether the member is to be forgotten: nothing else is known of it.
  package mutating func startRefused(_ job: UInt64) -> Bool {
    guard start?.job == UInt32(truncatingIfNeeded: job), token.isEmpty, !isOver, !hasLeft else { return false }
    start = nil
    return true
  }

  /// APNs knows the token no more.
  /// - Parameter at: since when, Unix milliseconds.
  /// - Returns: whether that changed something: not where the device has registered since.
  package mutating func unregistered(_ gone: [UInt8], at: Int64) -> Bool {
    guard !gone.isEmpty, gone == token, changedAt <= at, goneAt < at else { return false }
    isOver = true
    goneAt = at
    return true
  }
}
