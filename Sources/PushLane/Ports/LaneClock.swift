package import PushCore

/// Time, read once a turn.
package protocol LaneClock {
  var now: Now { get }
  /// Others have told the time: `now` is not only this machine's clock, which may be hours off.
  var isTold: Bool { get }
}

extension LaneClock {
  package var isTold: Bool { true }
}
