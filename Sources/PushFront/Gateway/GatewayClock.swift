import Foundation
import PushCore

/// The current time.
enum GatewayClock {
  static var unixMilliseconds: Int64 { Int64(Date.now.timeIntervalSince1970 * 1000) }

  /// On the monotonic clock.
  static var now: Instant { Instant(nanoseconds: Int64(DispatchTime.now().uptimeNanoseconds)) }
}
