package import PushCore
package import PushSettings

/// What a lane is given at its start: every bound by its name.
package struct LaneSettings: Sendable {
  /// `<host>/<lane>`: who reports, in every outcome.
  package var workerName: String
  /// Unacknowledged deliveries of both classes together.
  package var prefetch: Int
  /// Deliveries that may be in flight: the prefetch of both classes, with a margin for a broker that grants credit twice.
  package var jobsMaximum: Int
  /// Targets that may be in flight, requests whose delivery is gone included: a batch fills them as they become free.
  package var sendsMaximum: Int
  /// Targets that may be in flight besides, of the job that is processed alone.
  static let isolatedSendsMaximum = 16
  /// Targets that the admission store may be asked about at once: a batch of 1000 in one breath would be answered later than
  /// Redis' timeout allows, and what is answered late is sent though it may have been sent before.
  package var admissionsMaximum: Int
  /// Publishes that may wait for the broker's confirm.
  package var unconfirmedMaximum: Int
  /// Deliveries taken in one turn: a backlog flows through Redis, APNs and the broker while the lane works on the next
  /// part of it, and no turn becomes longer than what waits for an answer allows.
  package var deliveriesPerTurn: Int
  /// A lane with so many jobs in flight is busy: at 25,000 jobs a second, each is under way for 20 ms.
  package var busyJobsMinimum = 512
  /// Turns of a busy lane start so far apart.
  package var spacingMicroseconds: Int64 = 2000
  /// Deliveries of one channel acknowledged with one frame, at most.
  package var acknowledgeBatch: Int
  /// The longest that a settled delivery waits to be acknowledged.
  package var acknowledgeDelayMilliseconds: Int64
  /// The longest that an admitted job waits for room in its pool before it goes to the retry queues.
  package var roomWaitMilliseconds = Limits.roomWaitMilliseconds
  /// A pool that does not move keeps so many waiting while another one moves; the others go to the retry queues.
  package var slowWaitersMaximum: Int
  /// A pool that took nothing for so long, or whose oldest has waited so long, does not move.
  package var slowMilliseconds: Int64
  /// A pool that took a request within this time is in use. Longer than the time before: one that does not move may be what
  /// keeps the others' jobs away.
  package var movingMilliseconds: Int64
  /// After the broker refused a publish, the next ones wait so long.
  package var refusedPauseMilliseconds: Int64
  package var retry: RetryPolicy
  /// What becomes of deliveries that workers did not finish.
  package var isolation = IsolationPolicy()
  /// After jobs were isolated, and after a delivery that came again, the next job that may be poison is processed so much later:
  /// acknowledgements are with the broker by then, and a death gives nothing back that has a copy in its place already.
  package var possiblePoisonPauseMilliseconds: Int64 = 100
  /// How long a job that takes over old claims waits where it meets a new one, before it asks again.
  package var claimedPauseMilliseconds: Int64 = 1000
  /// What was admitted longer ago is asked about again before it is sent: a copy that is delivered again may take the job over once its
  /// claim is old (`Takeover.oldClaimSeconds`, which Redis counts in whole seconds), and be answered.
  package var admissionAgeMaximumMilliseconds: Int64 = 500
  package var onLimit: RateLimitPolicy
  package var drainTimeoutMilliseconds: Int64
  package var randomSeed: UInt64

  package init(
    workerName: String, prefetch: Int, retry: RetryPolicy, onLimit: RateLimitPolicy, drainTimeoutMilliseconds: Int64,
    randomSeed: UInt64
  ) {
    self.workerName = workerName
    self.prefetch = prefetch
    jobsMaximum = prefetch * 2 + 64
    sendsMaximum = prefetch * 2 + 1064
    admissionsMaximum = 256
    unconfirmedMaximum = prefetch * 4 + 1024
    deliveriesPerTurn = 128
    acknowledgeBatch = max(1, prefetch / 10)
    acknowledgeDelayMilliseconds = 5
    slowWaitersMaximum = max(1, prefetch / 8)
    slowMilliseconds = 2_000
    movingMilliseconds = 5_000
    refusedPauseMilliseconds = 100
    self.retry = retry
    self.onLimit = onLimit
    self.drainTimeoutMilliseconds = drainTimeoutMilliseconds
    self.randomSeed = randomSeed
  }
}
