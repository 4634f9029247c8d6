/// What owners may take of a consumer of one queue, so that none of them holds up the others.
///
/// The messages in progress are shared fairly (`FairBudget`). Others wait in order of delivery, and each owner's next one begins in turn. They
/// keep their deliveries, of which the broker gives only so many. So when an owner's messages have to wait for long, because their work takes
/// long or stands still, few of them may: the newest others are put off.
package struct FairShares<Owner: Hashable & Sendable, Message> {
  private struct Queue {
    /// Oldest first; not empty.
    var waiting: [(message: Message, since: Instant)] = []
    /// nil: its owner is not slow.
    var slowSince: Instant?
  }

  private let limits: FairShareLimits
  private var progress: FairBudget<Owner>
  /// Of owners whose messages wait.
  private var queues: [Owner: Queue] = [:]
  /// The same owners; whose turn it is comes first.
  private var turns: [Owner] = []

  package init(limits: FairShareLimits) {
    self.limits = limits
    progress = FairBudget(maximum: limits.progressMaximum)
  }

  /// A message came. true: it begins. false: it waits for `next`.
  /// - Parameter admits: whether an owner that has so many in progress may begin another one.
  package mutating func enter(
    _ message: Message, of owner: Owner, now: Instant, admits: (Owner, Int) -> Bool = { _, _ in true }
  ) -> Bool {
    if queues[owner] == nil {
      if admits(owner, progress.held(by: owner)), progress.take(1, for: owner) { return true }
      turns.append(owner)
    }
    queues[owner, default: Queue()].waiting.append((message, now))
    return false
  }

  /// A message that had begun is finished.
  package mutating func leave(_ owner: Owner) { progress.give(1, from: owner) }

  /// A waiting message that begins now; nil: none.
  /// - Parameter admits: as for `enter`.
  package mutating func next(
    admits: (Owner, Int) -> Bool = { _, _ in true }
  ) -> (message: Message, owner: Owner)? {
    for (place, owner) in turns.enumerated()
    where admits(owner, progress.held(by: owner)) && progress.take(1, for: owner) {
      turns.remove(at: place)
      guard let message = queues[owner]?.waiting.removeFirst().message else { preconditionFailure("it has a turn") }
      if queues[owner]?.waiting.isEmpty == true { queues[owner] = nil } else { turns.append(owner) }
      return (message, owner)
    }
    return nil
  }

  /// How many of its messages have begun and not finished.
  package func inProgress(of owner: Owner) -> Int { progress.held(by: owner) }

  package func isWaiting(_ owner: Owner) -> Bool { queues[owner] != nil }

  /// Messages that no longer wait here, and for how long their owner has been slow: see `FairShareLimits.delaySeconds`.
  /// - Parameter isStuck: the owner is slow, however short its messages have waited.
  package mutating func takeExcess(
    now: Instant, isStuck: (Owner) -> Bool = { _ in false }
  ) -> [(message: Message, owner: Owner, slowMilliseconds: Int64)] {
    if turns.isEmpty { return [] }
    for owner in turns {
      guard var queue = queues[owner], let oldest = queue.waiting.first?.since else {
        preconditionFailure("it has a turn")
      }
      let isSlow = now.milliseconds(since: oldest) >= limits.slowMilliseconds || isStuck(owner)
      guard isSlow != (queue.slowSince != nil) else { continue }
      queue.slowSince = isSlow ? oldest : nil
      queues[owner] = queue
    }
    let slow = turns.filter { queues[$0]?.slowSince != nil }
    var excess: [(message: Message, owner: Owner, slowMilliseconds: Int64)] = []
    for owner in slow {
      guard let queue = queues[owner], let since = queue.slowSince else { continue }
      let share = max(1, limits.slowWaitingMaximum / slow.count)
      guard queue.waiting.count > share else { continue }
      excess += queue.waiting[share...].map { ($0.message, owner, now.milliseconds(since: since)) }
      queues[owner]?.waiting.removeSubrange(share...)
    }
    return excess
  }
}
