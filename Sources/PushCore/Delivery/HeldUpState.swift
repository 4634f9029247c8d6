/// Whether a lane stood still before it read a delivery: then RabbitMQ may have taken the message back long ago, and others may have ended it.
package struct HeldUpState: Sendable {
  /// Turns of a lane that is well are a quarter of a second apart.
  private static let milliseconds: Int64 = 1_000

  private var turnedAt: Now
  /// When it stood still last: since when, and until when what waited in the meantime is read.
  private var since: Int64 = 0
  private var until = Instant(nanoseconds: .min)

  package init(now: Now) { turnedAt = now }

  /// Call at the beginning of each turn.
  package mutating func turn(_ now: Now) {
    if now.monotonic.milliseconds(since: turnedAt.monotonic) >= Self.milliseconds {
      since = now.unixMilliseconds - now.monotonic.milliseconds(since: turnedAt.monotonic)
      until = now.monotonic.adding(milliseconds: Self.milliseconds)
    }
    turnedAt = now
  }

  /// When the broker sent what is read now, at the earliest, Unix milliseconds; never later than now, also where the clock was put back.
  package func earliest(_ now: Now) -> Int64 {
    now.monotonic < until ? min(since, now.unixMilliseconds) : now.unixMilliseconds
  }
}
