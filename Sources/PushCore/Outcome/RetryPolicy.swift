/// When a job that may succeed later is tried again, and when it is given up.
///
/// Delays are those of the retry queues, so jitter is a choice between neighbouring queues, not a number of
/// milliseconds: one in four goes one queue further than its attempt says (from the last queue: one back), which tears
/// apart what failed together.
package struct RetryPolicy: Hashable, Sendable {
  package enum Decision: Hashable, Sendable {
    /// Into the retry queue of this delay.
    case again(delaySeconds: Int)
    /// As many attempts as allowed: outcome `failed`, and a dead letter.
    case exhausted
    /// Its expiration or the longest age would pass first: outcome `expired`.
    case expired
  }

  /// Ascending; at least one.
  package private(set) var delaysSeconds: [Int]
  /// Requests written to APNs for one (job, target), the first included.
  package private(set) var attemptsMaximum: UInt32
  /// Longest age of a job, counted from its first receipt.
  package private(set) var ageMaximumSeconds: Int64

  /// `delaysSeconds` are sorted here; zero, negative and repeated ones are our caller's mistake.
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

  /// What becomes of a job whose attempt failed.
  /// - Parameters:
  ///   - attempts: requests written so far (0 where none was: the pool was paused or full).
  ///   - firstSeen: when its first copy was received, Unix milliseconds.
  ///   - expiration: of the job, Unix seconds; nil or 0 does not end retries (0 is about what APNs stores).
  ///   - random: any 64 random bits.
  package func decide(attempts: UInt32, firstSeen: Int64, expiration: Int64?, now: Now, random: UInt64) -> Decision {
    guard attempts < attemptsMaximum else { return .exhausted }
    guard let left = secondsLeft(firstSeen: firstSeen, expiration: expiration, now: now) else { return .expired }
    var tier = min(Int(max(attempts, 1)) - 1, delaysSeconds.count - 1)
    if random & 3 == 0 && delaysSeconds.count > 1 {
      tier += tier + 1 < delaysSeconds.count ? 1 : -1
    }
    // Rather sooner than never: a job that ends before its queue would give it back takes the longest that it outlives.
    while Int64(delaysSeconds[tier]) >= left {
      guard tier > 0 else { return .expired }
      tier -= 1
    }
    return .again(delaySeconds: delaysSeconds[tier])
  }

  /// Whether there is no use in sending the job any more.
  package func isExpired(firstSeen: Int64, expiration: Int64?, now: Now) -> Bool {
    secondsLeft(firstSeen: firstSeen, expiration: expiration, now: now) == nil
  }

  /// Seconds until the job ends, rounded up; nil where it has ended.
  private func secondsLeft(firstSeen: Int64, expiration: Int64?, now: Now) -> Int64? {
    // Times come from messages: a number from outside must not overflow here.
    let age = max(0, now.unixMilliseconds &- min(firstSeen, now.unixMilliseconds)) / 1000
    var left = ageMaximumSeconds &- age
    if let expiration, expiration > 0 {
      left = min(left, expiration &- now.unixSeconds)
    }
    return left > 0 ? left : nil
  }
}
