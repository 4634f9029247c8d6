/// A credential in an environment: whose channel management is asked, on connections of its own.
package struct ChannelPoolID: Hashable, Sendable {
  /// Its name.
  package let credential: String
  package let environment: APNsEnvironment

  package init(credential: String, environment: APNsEnvironment) {
    self.credential = credential
    self.environment = environment
  }
}

/// What each pool may take of a consumer of channel requests, so that one whose channel management does not answer holds up no other.
///
/// All of them share what is in progress (`FairShares`), and each has a window of its own (`ShareState`): it grows with good answers, and
/// without any it shrinks to a few probes. What waits beyond that is put off, as soon as the pool is stuck.
package struct ChannelShares<Message> {
  private let window: ShareState.Limits
  private let slowMaximum: Int
  private var fair: FairShares<ChannelPoolID, Message>
  private let limits: FairShareLimits
  private var pools: [ChannelPoolID: ShareState] = [:]
  /// How many looks there were.
  private var look: UInt32 = 0
  private var nextLook: Instant

  /// - Parameter slowMaximum: the widest windows of all stuck pools together, if their answers are only slow.
  package init(limits: FairShareLimits, window: ShareState.Limits, slowMaximum: Int, now: Instant) {
    self.limits = limits
    self.window = window
    self.slowMaximum = slowMaximum
    fair = FairShares(limits: limits)
    nextLook = now
  }

  // MARK: messages

  /// A message came. true: it begins. false: it waits for `next`.
  package mutating func enter(_ message: Message, of pool: ChannelPoolID, now: Instant) -> Bool {
    let (pools, window) = (pools, window)
    return fair.enter(message, of: pool, now: now) { pool, held in
      pools[pool]?.admits(held: held) ?? (held < window.start)
    }
  }

  /// A waiting message that begins now; nil: none.
  package mutating func next() -> (message: Message, pool: ChannelPoolID)? {
    let (pools, window) = (pools, window)
    return fair.next { pool, held in pools[pool]?.admits(held: held) ?? (held < window.start) }
      .map { ($0.message, $0.owner) }
  }

  /// A message that had begun is finished.
  package mutating func leave(_ pool: ChannelPoolID) { fair.leave(pool) }

  /// Messages that no longer wait here, and for how long their pool has been stuck or slow.
  package mutating func takeExcess(now: Instant) -> [(message: Message, slowMilliseconds: Int64)] {
    let pools = pools
    return fair.takeExcess(now: now) { pools[$0]?.isStuck == true }
      .map { ($0.message, max($0.slowMilliseconds, pools[$0.owner]?.stuckMilliseconds(now: now) ?? 0)) }
  }

  /// All messages are gone: they will be delivered again.
  package mutating func forgetMessages() { fair = FairShares(limits: limits) }

  // MARK: answers

  /// Something was asked of the pool.
  /// - Returns: for `answered`.
  package mutating func asked(_ pool: ChannelPoolID) -> UInt32 {
    pools[pool, default: ShareState(limits: window)].sent()
    return look
  }

  /// Once for each `asked`.
  package mutating func answered(_ pool: ChannelPoolID, _ answer: ShareState.Answer, since asked: UInt32) {
    pools[pool]?.answered(answer, after: look &- asked)
  }

  /// Call in each turn: once in an interval it looks how each pool answers.
  package mutating func looked(now: Instant) {
    guard now >= nextLook else { return }
    nextLook = now.adding(milliseconds: window.lookMilliseconds)
    look &+= 1
    let stuckCount = pools.values.count { $0.isStuck }
    for pool in Array(pools.keys) {
      pools[pool]?.looked(isWaiting: fair.isWaiting(pool), slowMaximum: slowMaximum / max(1, stuckCount), now: now)
    }
    // One that is not in use begins anew. One that was stuck is tried with a few probes.
    pools = pools.filter {
      $1.isStuck || $1.onWire > 0 || fair.inProgress(of: $0) > 0 || fair.isWaiting($0)
    }
  }
}
