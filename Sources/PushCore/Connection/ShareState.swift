/// How much of a lane one pool of APNs may take, by how it answers.
///
/// The window bounds the pool's requests on the wire. Each good answer widens it by one, so it doubles in the time of an answer until it
/// is as wide as the lane allows; there it stays, and costs a comparison for each job. A pool that has work and no good answer for a while
/// is stuck, whatever the reason: it is silent, takes seconds, refuses, or cannot connect. Then the window shrinks to a few probes, also on
/// new connections, and the lane puts off all jobs beyond it. With good answers to its probes it is soon as wide as before.
///
/// Time is counted in looks, a fixed interval apart, and not by the clock: a lane that was not scheduled for a while looks once, after it
/// read what came meanwhile.
package struct ShareState: Sendable {
  package struct Limits: Sendable {
    /// Requests on the wire of a pool that has not answered yet.
    package var start = 64
    /// The same of a stuck pool.
    package var probes = 8
    /// The widest window.
    package var maximum: Int
    /// Looks without a good answer that make a pool stuck; an answer that took longer is slow, and so is no good one.
    package var stuckLooks: UInt32 = 15
    /// Between two looks.
    package var lookMilliseconds: Int64 = 100

    package init(maximum: Int) {
      precondition(maximum > 0)
      self.maximum = maximum
      start = min(start, maximum)
      probes = min(probes, start)
    }
  }

  package enum Answer: Sendable {
    /// APNs works: it accepted the request, or refused it for a reason of its own.
    case good
    /// APNs is overloaded or broken (5xx), or there was no answer.
    case bad
  }

  private enum Phase: Sendable {
    /// It answers, or has nothing to do. Becomes `stuck`.
    case answering
    /// It has work and no good answer, since then. Becomes `answering` when good answers have widened its window to that of a start.
    case stuck(since: Instant)
  }

  private let limits: Limits
  private var phase = Phase.answering
  /// Requests that may be on the wire.
  private var window: Int
  /// Requests without an answer.
  package private(set) var onWire = 0
  /// A good answer came since the last look.
  private var hasGoodAnswer = false
  /// Looks in a row with work and without a good answer.
  private var silentLooks: UInt32 = 0
  /// The widest window of a stuck pool whose answers are slow.
  private var slowMaximum: Int

  package init(limits: Limits) {
    self.limits = limits
    window = limits.start
    slowMaximum = limits.probes
  }

  /// What bulk leaves of this much room to transactional requests, so that they need not wait for an answer to it.
  package static func spare(of room: Int) -> Int { (room + 4) / 8 }

  /// How many more requests it may have on the wire.
  package var room: Int { window - onWire }

  package var isStuck: Bool {
    if case .stuck = phase { true } else { false }
  }

  /// Whether one that has this many jobs may take another.
  package func admits(held: Int) -> Bool { held < window }

  /// Whether it takes no further job: it is stuck, and has this many already.
  package func isFull(held: Int) -> Bool { held >= window && isStuck }

  /// For how long it has been stuck; 0 if it is not.
  package func stuckMilliseconds(now: Instant) -> Int64 {
    if case .stuck(let since) = phase { now.milliseconds(since: since) } else { 0 }
  }

  package mutating func sent() { onWire += 1 }

  /// A request ended.
  /// - Parameter looks: how many looks ago it was sent.
  package mutating func answered(_ answer: Answer, after looks: UInt32) {
    onWire -= 1
    switch answer {
    case .good where looks <= limits.stuckLooks:
      hasGoodAnswer = true
      if window < limits.maximum { window += 1 }
    case .good:
      if window < slowMaximum { window += 1 }
    case .bad:
      if isStuck { window = max(limits.probes, window / 2) }
    }
  }

  /// The lane forgets its requests; answers to them are not reported.
  package mutating func forgetRequests() { onWire = 0 }

  /// The time of a look came.
  /// - Parameters:
  ///   - isWaiting: jobs wait for it.
  ///   - slowMaximum: the widest window of a stuck pool.
  package mutating func looked(isWaiting: Bool, slowMaximum: Int, now: Instant) {
    self.slowMaximum = max(slowMaximum, limits.probes)
    let isAnswering = hasGoodAnswer
    hasGoodAnswer = false
    guard !isAnswering, onWire > 0 || isWaiting else {
      silentLooks = 0
      guard isAnswering, isStuck else { return }
      phase = window >= limits.start ? .answering : .stuck(since: now)
      return
    }
    silentLooks += 1
    switch phase {
    case .answering where silentLooks >= limits.stuckLooks:
      phase = .stuck(since: now.adding(milliseconds: -Int64(silentLooks) * limits.lookMilliseconds))
      window = limits.probes
    case .answering:
      break
    case .stuck:
      silentLooks = limits.stuckLooks
      window = min(window, self.slowMaximum)
    }
  }

  /// The lane could send nothing: that says nothing about the pool.
  package mutating func couldNotSend() { silentLooks = 0 }
}
