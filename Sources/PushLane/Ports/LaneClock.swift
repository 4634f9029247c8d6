package import PushCore

/// Time, read once a turn.
package protocol LaneClock {
  var now: Now { get }
}
