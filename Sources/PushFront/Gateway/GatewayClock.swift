import Foundation
import PushCore
import PushIO

/// The current time, by Redis' clock where this machine's is off.
enum GatewayClock {
  static var unixMilliseconds: Int64 {
    Int64(Date.now.timeIntervalSince1970 * 1000) &+ WallClock.machine.correctionMilliseconds
  }

  /// On the monotonic clock.
  static var now: Instant { Instant(nanoseconds: Int64(DispatchTime.now().uptimeNanoseconds)) }
}
