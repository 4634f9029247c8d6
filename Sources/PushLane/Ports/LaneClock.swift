package import PushCore

/// Time, read once a turn.
package protocol LaneClock {
  var now: Now { get }
  /// Redis has told its time: `now` is not only this machine's clock, which may be hours off.
  var hasRedisTime: Bool { get }
  /// Redis or APNs has told its time.
  var isConfirmed: Bool { get }
}

extension LaneClock {
  package var hasRedisTime: Bool { true }
  package var isConfirmed: Bool { true }
}
