/// What is kept of one device's rate: when its next request would be on time.
///
/// A request that comes again while it is on its way, or to be tried once more, costs nothing: whoever asks for it shows the
/// run in which it was charged. A run ends where the device has its whole burst again, for what was charged then counts no
/// more, and where APNs refused the device.
package struct RateState: Sendable {
  package enum Answer: Hashable, Sendable {
    case proceed
    case limited(retryAfterMilliseconds: Int64)
  }

  /// Theoretical arrival time, Unix microseconds.
  package private(set) var arrivalMicroseconds: Int64
  /// Names the time since the device had its whole burst, or was refused.
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

  /// APNs itself refused the device's requests, of which this is what was known: nothing for so long, then one an interval
  /// until the burst is back. It is a new run, so that the refused request does not pass as charged.
  package init(
    tight microseconds: Int64, after known: RateState?, run: UInt32, limit: RateLimit?, nowMicroseconds: Int64
  ) {
    let arrival = nowMicroseconds + microseconds + (limit?.toleranceMicroseconds ?? 0)
    arrivalMicroseconds = max(known?.arrivalMicroseconds ?? .min, arrival)
    self.run = run
  }

  /// Nothing limits the device but what APNs said: how long it still holds; 0: it does not.
  package func tightMilliseconds(nowMicroseconds: Int64) -> Int64 {
    arrivalMicroseconds <= nowMicroseconds ? 0 : (arrivalMicroseconds - nowMicroseconds + 999) / 1000
  }
}
