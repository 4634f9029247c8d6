package import PushCore

/// How a lane uses Redis.
package struct RedisAdmissionStoreSettings: Sendable {
  /// In front of every key.
  package var prefix = "push:"
  /// An admission that is not answered by then proceeds, unless Redis answers others meanwhile.
  package var timeoutMilliseconds: Int64 = 20
  /// Where Redis answers others, the oldest may wait so many timeouts: the machine is busy, and Redis is not away.
  package var patience: Int64 = 10
  package var limits = RateLimits.none
  /// How long a final answer is remembered: what is delivered again later is sent again.
  package var outcomeSeconds: Int64 = 6 * 3600
  /// How long a job that was admitted may be on its way before its answer is not expected any more: longer than it waits for room,
  /// and for APNs.
  package var claimSeconds: Int64 = 60
  /// How long a dead token is remembered.
  package var deadSeconds: Int64 = 30 * 86_400
  /// Lanes that share a device's rate while Redis is away: each gives its part.
  package var localShares = 1
  /// Failures in a row until Redis is spared.
  package var failuresMaximum = 5
  /// How long they go on until then.
  package var failingMilliseconds: Int64 = 400
  package var probeIntervalMilliseconds: Int64 = 250
  /// Commands that may wait for replies; above, the lane's own memory decides.
  package var waitingMaximum = 65_536
  /// Outcomes that a turn tells Redis of those that it missed.
  package var catchUpMaximum = 256
  /// How long a device is left alone that APNs refused as one too many.
  package var tightMilliseconds: Int64 = 30_000
  /// How long a delayed job of a collapse id is looked for.
  package var collapseMilliseconds: Int64 = 3_600_000

  package init() {}
}

/// What the admission store does for a job, one by one: labels of `herald_redis_degraded`.
package enum AdmissionFeature: String, CaseIterable, Sendable {
  case duplicates
  case deadTokens = "dead_tokens"
  case rateLimit = "rate_limit"
}

/// What happened since the start. Counters only grow.
package struct AdmissionCounters: Hashable, Sendable {
  /// Admissions asked for.
  package var admissions: UInt64 = 0
  /// Of them: answered by Redis in time.
  package var answeredInTime: UInt64 = 0
  /// Of them: decided by this lane's memory, because Redis was away, late or refused.
  package var decidedLocally: UInt64 = 0
  /// Of these: the device's rate was decided about too.
  package var ratesDecidedLocally: UInt64 = 0
  /// Of those decided by this lane's memory: not answered within the timeout.
  package var timeouts: UInt64 = 0
  /// Replies that came after their timeout, and were dropped.
  package var lateReplies: UInt64 = 0
  /// Error replies, NOSCRIPT aside.
  package var errors: UInt64 = 0
  /// Replies that are no answer of ours: somebody else writes under our keys.
  package var unreadable: UInt64 = 0
  /// Times that the script had to be loaded again.
  package var scriptReloads: UInt64 = 0
  /// Final answers sent to Redis.
  package var remembered: UInt64 = 0
  /// Final answers kept by this lane alone, for a while: Redis was away, refused them, or was lost before its reply.
  package var rememberedLocally: UInt64 = 0
  /// Of them: stored in Redis when it was back.
  package var caughtUp: UInt64 = 0
  /// Commands sent again to another node of a cluster.
  package var redirects: UInt64 = 0
  /// Connections lost.
  package var disconnects: UInt64 = 0

  package init() {}

  /// Admissions that this lane's memory decided, as far as the feature goes.
  package func decidedLocally(of feature: AdmissionFeature) -> UInt64 {
    switch feature {
    case .duplicates, .deadTokens: decidedLocally
    case .rateLimit: ratesDecidedLocally
    }
  }
}
