package import Logging
import PushCore
import PushIO

/// Runs a lane's turns on its own thread until it is drained or stopped.
///
/// It also answers report requests, and logs the adapters' notices: once per change, never per job.
struct LaneThread<LaneBroker: Broker, LaneStore: AdmissionStore, LanePush: PushService>: ~Copyable {
  typealias ThreadLane = Lane<LaneBroker, LaneStore, LanePush, LoopClock>

  var lane: ThreadLane
  let loop: EventLoop
  let control: LaneControl
  /// Adds the adapters' state to the lane's report.
  let describe: (borrowing ThreadLane, Now, inout LaneReport) -> Void
  /// All notices of the adapters since the last call.
  let takeNotices: (borrowing ThreadLane) -> [LaneNotice]
  let log: (LaneNotice) -> Void
  /// Closes the adapters' connections once the lane is done.
  let close: (borrowing ThreadLane) -> Void
  /// Whether they have closed.
  let isClosed: (borrowing ThreadLane) -> Bool
  /// Applies a reload.
  var reload: (inout ThreadLane, LaneUpdate) -> Void = { _, _ in }
  /// Ends a credential's connections.
  var revoke: (inout ThreadLane, String) -> Void = { _, _ in }
  /// Ends pauses.
  var lift: (inout ThreadLane, PauseLift) -> Void = { _, _ in }
  /// Returns its jobs to the broker, and recreates what this step waits for.
  var restart: (inout ThreadLane, DeliveryStep) -> Void = { _, _ in }
  var standstill = LaneStandstill()
  /// Drains by itself after the input has ended and nothing is in flight.
  var endsWhenExhausted = false
  private let quiet = LaneNotices()
  private(set) var phase = Phase.beginning

  enum Phase {
    /// → turning
    case beginning
    /// Until the lane is drained, or told to stop. → closing
    case turning(nextLook: Instant, nextStanding: Instant)
    /// Its last acknowledgements are being written, and connections closed.
    case closing(until: Instant)
  }

  private static var standingMilliseconds: Int64 { 5000 }
  private static var lookMilliseconds: Int64 { 1000 }
  /// After the lane is done, the time for its last acknowledgements.
  private static var closeMilliseconds: Int64 { 1000 }
  private static var closeWaitMilliseconds: Int { 10 }

  /// Occupies the calling thread until the lane is done. Returns its last report.
  @discardableResult
  mutating func run() -> LaneReport {
    while true {
      if let last = turn() { return last }
    }
  }

  /// How long the next turn may wait without input.
  var waitMilliseconds: Int {
    mutating get {
      switch phase {
      case .beginning: 0
      case .turning: lane.idleMilliseconds
      case .closing: Self.closeWaitMilliseconds
      }
    }
  }

  /// Waits for work and does it. Returns the lane's last report if this was its last turn.
  mutating func turn() -> LaneReport? {
    switch phase {
    case .beginning:
      control.attach(loop.mailbox)
      phase = .turning(nextLook: loop.now.monotonic, nextStanding: loop.now.monotonic)
      return nil
    case .turning(let nextLook, let nextStanding):
      return turn(nextLook: nextLook, nextStanding: nextStanding)
    case .closing(let deadline):
      loop.flush()
      loop.poll(maximumWaitMilliseconds: Self.closeWaitMilliseconds)
      // The last confirms and answers must be read, so that connections close in order.
      lane.turn()
      return isClosed(lane) || loop.now.monotonic >= deadline ? lastReport() : nil
    }
  }

  private mutating func turn(nextLook: Instant, nextStanding: Instant) -> LaneReport? {
    loop.poll(maximumWaitMilliseconds: lane.idleMilliseconds, spacingMicroseconds: lane.spacingMicroseconds)
    lane.turn()
    loop.flush()
    if attend() { return lastReport() }
    let now = loop.now.monotonic
    if now >= nextLook { lookWhetherItMoves() }
    if now >= nextStanding {
      for notice in quiet.due(loop.now) { log(notice) }
    }
    if lane.isDrained {
      close(lane)
      if isClosed(lane) { return lastReport() }
      phase = .closing(until: now.adding(milliseconds: Self.closeMilliseconds))
    } else {
      phase = .turning(
        nextLook: now >= nextLook ? now.adding(milliseconds: Self.lookMilliseconds) : nextLook,
        nextStanding: now >= nextStanding ? now.adding(milliseconds: Self.standingMilliseconds) : nextStanding)
    }
    return nil
  }

  private func lastReport() -> LaneReport {
    tellNotices()
    return report()
  }

  /// true: stop at once.
  private mutating func attend() -> Bool {
    lane.turned(nanoseconds: loop.lastTurnNanoseconds)
    let asked = control.take()
    if let update = asked.update { reload(&lane, update) }
    for credential in asked.revocations { revoke(&lane, credential) }
    for asked in asked.lifts { lift(&lane, asked) }
    let isAtEnd = endsWhenExhausted && lane.isExhausted && lane.jobsInFlight == 0
    if asked.isDrainWanted || isAtEnd { lane.beginDrain() }
    if !asked.requests.isEmpty { control.tell(report(), asked.requests) }
    tellNotices()
    return asked.isStopWanted
  }

  private func tellNotices() {
    for notice in takeNotices(lane) {
      if let reported = quiet.report(notice, loop.now) { log(reported) }
    }
  }

  /// A lane that stands still reports it; if that lasts, it is restarted.
  private mutating func lookWhetherItMoves() {
    let (notice, step) = standstill.turn(lane.look(), now: loop.now.monotonic)
    if let notice { log(notice) }
    if let step { restart(&lane, step) }
  }

  private func report() -> LaneReport {
    var report = LaneReport(
      counters: lane.counters, jobsInFlight: lane.jobsInFlight, unconfirmed: lane.unconfirmedCount,
      isConsuming: lane.isConsuming, isExhausted: lane.isExhausted)
    report.stuckPools = lane.stuckPools
    standstill.describe(lane.look(), loop.now.monotonic, &report)
    describe(lane, loop.now, &report)
    return report
  }
}

/// The loop's clocks.
struct LoopClock: LaneClock {
  let loop: EventLoop
  var now: Now { loop.now }
  var hasRedisTime: Bool { loop.hasRedisTime }
  var isConfirmed: Bool { loop.hasConfirmedTime }
}

/// A change, for the log.
package struct LaneNotice: Sendable {
  package var level: Logger.Level
  /// A report of the same text for the same subject is not a change.
  package var subject: String
  package var text: String
  package var metadata: Logger.Metadata
  /// It tells what happened, and not what is: the same text again is another one.
  package var isEvent = false

  package init(_ level: Logger.Level, _ subject: String, _ text: String, _ metadata: Logger.Metadata = [:]) {
    self.level = level
    self.subject = subject
    self.text = text
    self.metadata = metadata
  }
}
