/// When a job that may succeed later is tried again, and when it is given up.
///
/// Delays are those of the retry queues: the first retry waits in the first queue, the second in the second, and so on. A requested wait (a
/// pause, a device's rate) takes the shortest delay that is long enough (`postpone`). A job never goes into a queue that it would not
/// outlive: it takes the longest delay that it does outlive.
package struct RetryPolicy: Hashable, Sendable {
  package enum Decision: Hashable, Sendable {
    /// Into the retry queue with this delay.
    case again(delaySeconds: Int)
    /// The maximum of attempts was made: outcome `failed`, and a dead letter.
    case exhausted
    /// Its expiration or the maximum age would pass first: outcome `expired`.
    case expired
  }

  /// Ascending; at least one.
  package private(set) var delaysSeconds: [Int]
  /// Requests written to APNs for one (job, target), the first included.
  package private(set) var attemptsMaximum: UInt32
  /// Maximum age of a job, counted from when it was enqueued.
  package private(set) var ageMaximumSeconds: Int64

  /// `delaysSeconds` are sorted here; the caller must not pass zero, negative or repeated ones.
  package init(
    delaysSeconds: [Int] = [1, 5, 30, 120, 600], attemptsMaximum: UInt32 = 6, ageMaximumSeconds: Int64 = 3600
  ) {
    let sorted = delaysSeconds.sorted()
    precondition(!sorted.isEmpty && sorted[0] > 0, "a retry delay is at least one second, and there is at least one")
    precondition(attemptsMaximum > 0 && ageMaximumSeconds > 0, "a job has at least one attempt and one second")
    self.delaysSeconds = sorted
    self.attemptsMaximum = attemptsMaximum
    self.ageMaximumSeconds = ageMaximumSeconds
  }

  /// What to do with a job whose attempt failed.
  /// - Parameters:
  ///   - attempts: requests written so far (0 if none was: the pool was paused or full).
  ///   - enqueuedAt: when it was enqueued, Unix milliseconds.
  ///   - expiration: of the job, Unix seconds; nil or 0 does not end retries (0 only means that APNs stores nothing).
  package func decide(attempts: UInt32, enqueuedAt: Int64, expiration: Int64?, now: Now) -> Decision {
    guard attempts < attemptsMaximum else { return .exhausted }
    return wait(number: max(attempts, 1), JobTimes(enqueuedAt: enqueuedAt, expiration: expiration), now: now)
  }

  /// The first wait is the first delay, the second the second, and so on; the last delay repeats.
  /// - Parameter number: from 1.
  package func wait(number: UInt32, _ times: JobTimes, now: Now) -> Decision {
    longest(from: min(Int(number) - 1, delaysSeconds.count - 1), times, now)
  }

  /// For a requested wait, as in a pause: the shortest delay that is long enough, else the longest.
  package func postpone(milliseconds: Int64, _ times: JobTimes, now: Now) -> Decision {
    longest(from: nearest(milliseconds), times, now)
  }

  /// For a job whose pool has been stuck for this long: the longest delay that is longer than neither that nor the job's age, else the
  /// first. So a job waits at most as long again, and comes back less and less often.
  package func postpone(stuckMilliseconds: Int64, _ times: JobTimes, now: Now) -> Decision {
    longest(from: stuckTier(stuckMilliseconds, times, now), times, now)
  }

  /// The same for a job that only waits to tell its end: also if its time is over by then.
  package func postponedEnd(stuckMilliseconds: Int64, _ times: JobTimes, now: Now) -> Int {
    delaysSeconds[stuckTier(stuckMilliseconds, times, now)]
  }

  private func stuckTier(_ milliseconds: Int64, _ times: JobTimes, _ now: Now) -> Int {
    let age = max(0, now.unixMilliseconds &- min(times.enqueuedAt, now.unixMilliseconds))
    let longest = min(milliseconds, age)
    return delaysSeconds.lastIndex { Int64($0) * 1000 <= longest } ?? 0
  }

  /// The delay for a job over its device's rate, which has room again after so long.
  ///
  /// If many jobs wait for one device, all get the same time and only one gets the room. So the longer a job has waited the less often it
  /// asks: up to an eighth of its age. If the room comes after the job's end, it expires now.
  package func postponeLimited(milliseconds: Int64, _ times: JobTimes, now: Now) -> Decision {
    let age = max(0, now.unixMilliseconds &- min(times.enqueuedAt, now.unixMilliseconds))
    var tier = nearest(milliseconds)
    while tier + 1 < delaysSeconds.count, Int64(delaysSeconds[tier + 1]) * 1000 <= age / 8 { tier += 1 }
    if outlives(Int64(delaysSeconds[tier]) * 1000, times, now) { return .again(delaySeconds: delaysSeconds[tier]) }
    return outlives(milliseconds, times, now) ? longest(from: tier, times, now) : .expired
  }

  /// Refusals of a copy after which another retry queue is tried: the first one is full or broken.
  package static let refusalsMaximum = 5

  /// The retry queue for a copy after this many refusals: its own, and in every other round of refusals another one, longer ones first.
  /// Never one that the job would not outlive.
  package func queue(_ delaySeconds: Int, refusals: Int, _ times: JobTimes, now: Now) -> Int {
    let round = refusals / RetryPolicy.refusalsMaximum
    guard round % 2 == 1, let own = delaysSeconds.firstIndex(of: delaySeconds) else { return delaySeconds }
    let others = (delaysSeconds[(own + 1)...] + delaysSeconds[..<own].reversed())
      .filter { outlives(Int64($0) * 1000, times, now) }
    return others.isEmpty ? delaySeconds : others[round / 2 % others.count]
  }

  private func nearest(_ milliseconds: Int64) -> Int {
    delaysSeconds.firstIndex { Int64($0) * 1000 >= milliseconds } ?? delaysSeconds.count - 1
  }

  /// The longest delay, at most this one, that the job outlives.
  private func longest(from tier: Int, _ times: JobTimes, _ now: Now) -> Decision {
    for tier in stride(from: tier, through: 0, by: -1)
    where outlives(Int64(delaysSeconds[tier]) * 1000, times, now) {
      return .again(delaySeconds: delaysSeconds[tier])
    }
    return .expired
  }

  private func outlives(_ milliseconds: Int64, _ times: JobTimes, _ now: Now) -> Bool {
    var then = now
    let (sum, isPast) = now.unixMilliseconds.addingReportingOverflow(milliseconds)
    then.unixMilliseconds = sum
    return !isPast && !isExpired(enqueuedAt: times.enqueuedAt, expiration: times.expiration, now: then)
  }

  /// Whether the job's time is over.
  package func isExpired(enqueuedAt: Int64, expiration: Int64?, now: Now) -> Bool {
    secondsLeft(enqueuedAt: enqueuedAt, expiration: expiration, now: now) == nil
  }

  /// Seconds until the job ends, rounded up; nil if it has ended.
  private func secondsLeft(enqueuedAt: Int64, expiration: Int64?, now: Now) -> Int64? {
    // Times come from messages: foreign numbers must not overflow here.
    let age = max(0, now.unixMilliseconds &- min(enqueuedAt, now.unixMilliseconds)) / 1000
    var left = ageMaximumSeconds &- age
    if let expiration, expiration > 0 {
      left = min(left, expiration &- now.unixSeconds)
    }
    return left > 0 ? left : nil
  }
}
