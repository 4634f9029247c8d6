import Foundation
import PushCore

/// The current time on the monotonic clock.
enum GatewayClock {
  static var now: Instant { Instant(nanoseconds: Int64(DispatchTime.now().uptimeNanoseconds)) }
}
