package import PushCore
package import PushSettings

/// A lane's settings: every bound by its name.
package struct LaneSettings: Sendable {
  /// `<host>/<lane>`: the `worker` of every outcome.
  package var workerName: String
  /// Maximum of unacknowledged deliveries of both classes together.
  package var prefetch: Int
  /// The same of each class.
  package var deliveriesMaximum: Int { LaneSettings.deliveriesMaximum(ofPrefetch: prefetch) }
  /// Maximum of deliveries in flight: the prefetch of both classes, with a margin for a broker that grants credit twice.
  package var jobsMaximum: Int
  /// Maximum bytes of the bodies of deliveries in flight, exceeded by one body at most: from there on no delivery is taken, and RabbitMQ waits,
  /// through TCP. What a class may hold (`largeBytesMaximum`, and as much in small bodies) leaves half of it to those that are being put off.
  package var bodyBytesMaximum = 64 << 20
  /// From so many bytes of a class on, its jobs above `smallBodyBytes` go to the retry queues: else they would take memory, or the other
  /// class's and other apps' place.
  package var largeBytesMaximum: Int { bodyBytesMaximum / 4 }
  /// A whole prefetch of such bodies takes no more than `largeBytesMaximum`.
  package var smallBodyBytes: Int { largeBytesMaximum / deliveriesMaximum }
  /// Maximum of targets in flight, orphans included: a batch takes slots as they become free.
  package var sendsMaximum: Int
  /// Additional targets in flight for the isolated job.
  static let isolatedSendsMaximum = 16
  /// Maximum of pending admissions: a batch of 1000 at once would be answered later than
  /// Redis' timeout allows, and a target without an answer in time is sent although it may have been sent before.
  package var admissionsMaximum: Int
  /// Maximum of publishes without a confirm.
  package var unconfirmedMaximum: Int
  /// Deliveries taken in one turn: Redis, APNs and the broker work on one part of a backlog while the lane works on the next
  /// part, and turns stay short enough for everything that waits for an answer.
  package var deliveriesPerTurn: Int
  /// A lane with this many jobs in flight is busy: at 25,000 jobs a second, each takes 20 ms.
  package var busyJobsMinimum = 512
  /// The time between the starts of two turns of a busy lane.
  package var spacingMicroseconds: Int64 = 2000
  /// Maximum of deliveries of one channel that one frame acknowledges.
  package var acknowledgeBatch: Int
  /// As many are acknowledged one by one, behind a delivery that holds them up: well below what stuck pools leave of a class's prefetch.
  package var acknowledgeOneBatch: Int
  /// The longest wait of a settled delivery for its acknowledgement.
  package var acknowledgeDelayMilliseconds: Int64
  /// The longest wait of an admitted job for room in its pool before it goes to the retry queues.
  package var roomWaitMilliseconds = Limits.roomWaitMilliseconds
  /// What one pool may take of the lane.
  package var share: ShareState.Limits
  /// The widest windows of all stuck pools together while another pool is in use; else it is `jobsSentMaximum`.
  package var stuckSendsMaximum: Int
  /// How long a send of a stuck pool waits at least, because its window may grow again.
  package var stuckWaitMilliseconds: Int64 = 500
  /// How many jobs of a class may be sent and not settled, except for pools with few of them (`jobsSentSpare`).
  package var jobsSentMaximum: Int
  /// A pool with fewer such jobs of a class may always send.
  package var jobsSentSpare: Int
  /// How many sends may wait for a full pool while another pool is in use; the rest goes to the retry queues.
  package var slowWaitersMaximum: Int
  /// A pool is full if it took nothing for this long, or its oldest send has waited this long.
  package var slowMilliseconds: Int64
  /// A pool with a delivery within this time is in use. Longer than the time above: a full pool may
  /// keep jobs away from the others.
  package var movingMilliseconds: Int64
  /// Looks for which deliveries stay in the lane, by how fast their pool answers, before the rest of them goes to the retry queues: while
  /// another pool is in use, and while none is.
  package var stayLooks = 3
  package var aloneStayLooks = 10
  /// As many of a class stay while no other pool is in use; the rest of them is free to see what comes behind.
  package var aloneStayMinimum: Int { deliveriesMaximum - max(1, deliveriesMaximum / 8) }
  /// As many waiting sends, of batches, leave little for others.
  package var waitingMaximum: Int
  /// How many sends may wait for a pool in any case.
  package var lateWaitersMaximum: Int
  /// For that, a pool with a delivery within this time is in use.
  package var usedMilliseconds: Int64
  /// How many jobs of a class may keep their deliveries while their dead letters are refused, or outcomes wait that are; the first are counted
  /// so often.
  package var refusedMaximum: Int
  package var refusedLookMilliseconds: Int64 = 100
  /// Between two fresh channels to publish on.
  package var renewalMilliseconds: Int64 = 1_000
  package var retry: RetryPolicy
  /// The policy for deliveries that workers did not finish.
  package var isolation = IsolationPolicy()
  /// The pause before the next possible poison job, after jobs were isolated and after a redelivery:
  /// by then the broker has the acknowledgements, and a crash redelivers no job that already has a copy.
  package var possiblePoisonPauseMilliseconds: Int64 = 100
  /// How long a job that takes over old claims waits when it meets a young one, before it asks again.
  package var claimedPauseMilliseconds: Int64 = 1000
  /// The same for one that is behind an older job of its collapse id.
  package var behindPauseMilliseconds: Int64 = 25
  /// A send that was admitted longer ago asks again before it is sent: a redelivered copy may take the job over once its
  /// claim is old (`Takeover.oldClaimSeconds`, which Redis counts in whole seconds), and get an answer.
  package var admissionAgeMaximumMilliseconds: Int64 = 500
  /// The same for an ordered job with a collapse id: a newer one may have come meanwhile. One that asks so late for the first time has waited.
  package var orderAgeMaximumMilliseconds: Int64 = 50
  /// The devices of a page that were looked up longer ago are looked up again before anything is sent to them.
  package var resolutionAgeMaximumMilliseconds: Int64 = 20_000
  /// How long the lane waits, from its start, for somebody to confirm its clock before that ends a job. 0: others have no better one.
  package var unsureMilliseconds: Int64 = 0
  /// A worker's: Redis may be started beside it.
  package static let workersUnsureMilliseconds: Int64 = 30_000
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
    acknowledgeOneBatch = max(1, prefetch / 80)
    acknowledgeDelayMilliseconds = 5
    // A batch's sends: a pool that falls silent leaves a quarter of the slots to the others.
    share = ShareState.Limits(maximum: sendsMaximum / 4 * 3)
    // A pool that never answered, or does not any more, leaves the others most of a small prefetch.
    share.probes = min(share.probes, max(1, prefetch / 16))
    share.start = min(share.start, max(share.probes, prefetch / 8))
    stuckSendsMaximum = max(1, prefetch / 16, min(8, prefetch / 8))
    let deliveries = LaneSettings.deliveriesMaximum(ofPrefetch: prefetch)
    jobsSentMaximum = deliveries - max(1, prefetch / 16, min(8, prefetch / 8))
    jobsSentSpare = max(2, prefetch / 64)
    slowWaitersMaximum = max(1, prefetch / 8)
    refusedMaximum = max(1, prefetch / 16)
    slowMilliseconds = 2_000
    movingMilliseconds = 5_000
    waitingMaximum = sendsMaximum / 2
    lateWaitersMaximum = max(1, prefetch / 128)
    usedMilliseconds = 86_400_000
    self.retry = retry
    self.onLimit = onLimit
    self.drainTimeoutMilliseconds = drainTimeoutMilliseconds
    self.randomSeed = randomSeed
  }

  /// Half of the prefetch, and at least two, one of them for others.
  package static func deliveriesMaximum(ofPrefetch prefetch: Int) -> Int { max(2, prefetch / 2) }
}
