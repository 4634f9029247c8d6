package import Logging
import PushCore
import PushIO

/// Turns a lane on its own thread until it is drained or stopped.
///
/// Beside turning, it answers reports, and logs what the adapters noticed: once per change, never per job.
struct LaneThread<LaneBroker: Broker, LaneStore: AdmissionStore, LanePush: PushService>: ~Copyable {
  typealias ThreadLane = Lane<LaneBroker, LaneStore, LanePush, LoopClock>

  var lane: ThreadLane
  let loop: EventLoop
  let control: LaneControl
  /// Adds what the adapters know of themselves to the lane's report.
  let describe: (borrowing ThreadLane, Now, inout LaneReport) -> Void
  /// Everything that the adapters noticed since the last call.
  let takeNotices: (borrowing ThreadLane) -> [LaneNotice]
  let log: (LaneNotice) -> Void
  /// Closes the adapters' connections once the lane is done.
  let close: (borrowing ThreadLane) -> Void
  /// Whether they said goodbye.
  let isClosed: (borrowing ThreadLane) -> Bool
  /// Takes a reload into use.
  var reload: (inout ThreadLane, LaneUpdate) -> Void = { _, _ in }
  /// Ends a credential's connections.
  var revoke: (inout ThreadLane, String) -> Void = { _, _ in }
  /// Gives its jobs back to the broker, and makes anew what this step waits for.
  var restart: (inout ThreadLane, DeliveryStep) -> Void = { _, _ in }
  var standstill = LaneStandstill()
  /// Drains by itself once the input ended and nothing is in flight.
  var endsWhenExhausted = false
  private let quiet = LaneNotices()
  private(set) var phase = Phase.beginning

  enum Phase {
    /// → turning
    case beginning
    /// Until the lane is drained, or told to stop. → closing
    case turning(nextLook: Instant, nextStanding: Instant)
    /// Its last acknowledgements and goodbyes leave.
    case closing(until: Instant)
  }

  private static var standingMilliseconds: Int64 { 5000 }
  private static var lookMilliseconds: Int64 { 1000 }
  /// After the lane is done its last acknowledgements get so long to leave.
  private static var closeMilliseconds: Int64 { 1000 }
  private static var closeWaitMilliseconds: Int { 10 }

  /// Takes the calling thread until the lane is done. Returns what it said last.
  @discardableResult
  mutating func run() -> LaneReport {
    while true {
      if let last = turn() { return last }
    }
  }

  /// How long the next turn may wait where nothing comes in.
  var waitMilliseconds: Int {
    switch phase {
    case .beginning: 0
    case .turning: lane.idleMilliseconds
    case .closing: Self.closeWaitMilliseconds
    }
  }

  /// Waits for something to do and does it. Returns what the lane said last where this was its last turn.
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
      // Confirms and goodbyes still come in, and must be read for the connections to end in order.
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

  /// A lane that stands still says so; one that goes on standing still is restarted.
  private mutating func lookWhetherItMoves() {
    let (notice, step) = standstill.turn(lane.look(), now: loop.now.monotonic)
    if let notice { log(notice) }
    if let step { restart(&lane, step) }
  }

  private func report() -> LaneReport {
    var report = LaneReport(
      counters: lane.counters, jobsInFlight: lane.jobsInFlight, unconfirmed: lane.unconfirmedCount,
      isConsuming: lane.isConsuming, isExhausted: lane.isExhausted)
    standstill.describe(lane.look(), loop.now.monotonic, &report)
    describe(lane, loop.now, &report)
    return report
  }
}

/// The loop's own reading of the clocks.
struct LoopClock: LaneClock {
  let loop: EventLoop
  var now: Now { loop.now }
}

/// Something that changed, for the log.
package struct LaneNotice: Sendable {
  package var level: Logger.Level
  /// What it is about: a change of the same subject to the same text is no change.
  package var subject: String
  package var text: String
  package var metadata: Logger.Metadata

  package init(_ level: Logger.Level, _ subject: String, _ text: String, _ metadata: Logger.Metadata = [:]) {
    self.level = level
    self.subject = subject
    self.text = text
    self.metadata = metadata
  }
}
