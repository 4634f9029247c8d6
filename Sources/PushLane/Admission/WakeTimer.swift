import PushCore
import PushIO

/// One timer for the earliest due time. It only ends the loop's wait; the lane's turn does the work.
struct WakeTimer: ~Copyable {
  /// Whether a timer has run. The timer retains this instead of its owner: a weak reference would make each retain of the owner slow.
  private final class Flag {
    var hasFired = false
  }

  private let loop: EventLoop
  private var set: (token: TimerToken, at: Instant, flag: Flag)?

  init(loop: EventLoop) {
    self.loop = loop
  }

  deinit {
    if let set { loop.cancel(set.token) }
  }

  /// Wakes the loop at this instant or earlier.
  mutating func wake(at instant: Instant) {
    if let set, !set.flag.hasFired {
      if set.at <= instant { return }
      loop.cancel(set.token)
    }
    let delay = max(0, instant.milliseconds(since: loop.now.monotonic)) + 1
    let flag = Flag()
    set = (loop.schedule(afterMilliseconds: delay) { flag.hasFired = true }, instant, flag)
  }
}
