package import PushCore

/// How a lane uses Redis.
package struct RedisAdmissionStoreSettings: Sendable {
  /// Prefix of every key.
  package var prefix = "push:"
  /// Redis is silent if it owes an answer and nothing came for so long: then waiting admissions proceed without it.
  package var timeoutMilliseconds: Int64 = 200
  package var limits = RateLimits.none
  /// How long a final answer is remembered: a job that is delivered again later is sent again.
  package var outcomeSeconds: Int64 = 6 * 3600
  /// How long an admitted job may be in flight before its answer is no longer expected: longer than it may wait for room and for APNs.
  package var claimSeconds: Int64 = 60
  /// How long a dead token is remembered.
  package var deadSeconds: Int64 = 30 * 86_400
  /// Lanes that share a device's rate while Redis is down: each uses its part.
  package var localShares = 1
  /// Failures in a row that open the breaker.
  package var failuresMaximum = 5
  /// How long they must last for that.
  package var failingMilliseconds: Int64 = 400
  package var probeIntervalMilliseconds: Int64 = 250
  /// Maximum of commands that wait for replies; beyond it the lane's own memory decides.
  package var waitingMaximum = 65_536
  /// Maximum of missed outcomes that a turn sends to Redis.
  package var catchUpMaximum = 256
  /// How long nothing is sent to a device after APNs answered TooManyRequests for it.
  package var tightMilliseconds: Int64 = 30_000
  /// How long a delayed job's collapse id is remembered.
  package var collapseMilliseconds: Int64 = 3_600_000
  /// How old an admission may be, in whole seconds, for newer jobs of its collapse id to wait for its answer.
  package var orderWaitSeconds: Int64 = 2

  package init() {}
}

/// The separate features of the admission store: labels of `herald_redis_degraded`.
package enum AdmissionFeature: String, CaseIterable, Sendable {
  case duplicates
  case deadTokens = "dead_tokens"
  case rateLimit = "rate_limit"
}

/// Counts since the start. They only increase.
package struct AdmissionCounters: Hashable, Sendable {
  /// Admissions requested.
  package var admissions: UInt64 = 0
  /// Of them: answered by Redis.
  package var answeredInTime: UInt64 = 0
  /// Of them: decided by this lane's memory, because Redis was down, late or refused.
  package var decidedLocally: UInt64 = 0
  /// Of these: the device's rate was decided too.
  package var ratesDecidedLocally: UInt64 = 0
  /// Silences for which an admission was decided by this lane's memory, counted at their end.
  package var silences: UInt64 = 0
  /// Of those decided by this lane's memory: Redis was silent.
  package var timeouts: UInt64 = 0
  /// Replies that came after a silence, and were dropped.
  package var lateReplies: UInt64 = 0
  /// Error replies, NOSCRIPT aside.
  package var errors: UInt64 = 0
  /// Replies that are not answers of ours: another program writes to our keys.
  package var unreadable: UInt64 = 0
  /// How often scripts had to be loaded again.
  package var scriptReloads: UInt64 = 0
  /// Final answers sent to Redis.
  package var remembered: UInt64 = 0
  /// Final answers kept in this lane for a while: Redis was down, refused them, or was lost before its reply.
  package var rememberedLocally: UInt64 = 0
  /// Of them: stored in Redis when it was back.
  package var caughtUp: UInt64 = 0
  /// Commands sent again to another node of a cluster.
  package var redirects: UInt64 = 0
  /// Connections lost.
  package var disconnects: UInt64 = 0

  package init() {}

  /// Admissions that this lane's memory decided, as far as this feature is concerned.
  package func decidedLocally(of feature: AdmissionFeature) -> UInt64 {
    switch feature {
    case .duplicates, .deadTokens: decidedLocally
    case .rateLimit: ratesDecidedLocally
    }
  }
}
