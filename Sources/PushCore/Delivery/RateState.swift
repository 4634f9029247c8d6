/// The state of one device's rate: when its next request would be on time.
///
/// A request that comes again while it is in flight or waits for a retry is not charged twice: it shows the run in which it was charged. A
/// run ends when the device has its whole burst again, since old charges no longer count then, and when APNs answers TooManyRequests for
/// the device.
package struct RateState: Sendable {
  package enum Answer: Hashable, Sendable {
    case proceed
    case limited(retryAfterMilliseconds: Int64)
  }

  /// Theoretical arrival time, microseconds of its owner's clock.
  package private(set) var arrivalMicroseconds: Int64
  /// Identifies the time since the device had its whole burst, or was refused.
  package let run: UInt32

  /// A device with its whole burst.
  package init(run: UInt32) {
    arrivalMicroseconds = .min
    self.run = run
  }

  /// Charges one request, unless it was charged in this run or the device is over its rate.
  package mutating func charge(inRun charged: UInt32?, limit: RateLimit, nowMicroseconds: Int64) -> Answer {
    let ahead = max(arrivalMicroseconds, nowMicroseconds) - nowMicroseconds
    if ahead > 0, charged == run { return .proceed }
    let wait = ahead - limit.toleranceMicroseconds
    if wait > 0 { return .limited(retryAfterMilliseconds: (wait + 999) / 1000) }
    arrivalMicroseconds = nowMicroseconds + ahead + limit.intervalMicroseconds
    return .proceed
  }

  /// APNs answered TooManyRequests for the device: nothing is sent for this long, then one request an interval until the burst is back.
  /// This starts a new run, so that the refused request does not count as charged.
  package init(
    tight microseconds: Int64, after known: RateState?, run: UInt32, limit: RateLimit?, nowMicroseconds: Int64
  ) {
    let arrival = nowMicroseconds + microseconds + (limit?.toleranceMicroseconds ?? 0)
    arrivalMicroseconds = max(known?.arrivalMicroseconds ?? .min, arrival)
    self.run = run
  }

  /// How long APNs' refusal still holds for a device without a rate of its own; 0: it does not.
  package func tightMilliseconds(nowMicroseconds: Int64) -> Int64 {
    arrivalMicroseconds <= nowMicroseconds ? 0 : (arrivalMicroseconds - nowMicroseconds + 999) / 1000
  }
}
