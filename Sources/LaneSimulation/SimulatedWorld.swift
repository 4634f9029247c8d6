package import PushCore
import PushLane

/// Everything around a lane, simulated from one seed: a broker, the admission store, APNs and time. The same seed gives the same
/// run, step by step.
package final class SimulatedWorld {
  package var random: SeededRandom
  package var faults: Faults
  package let settings: WorldSettings
  /// The monotonic clock; the other one is ahead of it by `skewMilliseconds`.
  package var milliseconds: Int64 = 1_800_000_000_000
  package var skewMilliseconds: Int64 = 0
  package let auditor: Auditor
  /// Jobs that end the worker whenever it sends them.
  package var poison: Set<String> = []
  /// The worker is ending in the middle of its turn: nothing of what it does any more reaches anybody.
  package var isDying = false
  package let broker: BrokerServer
  package let apns: APNsServer
  package let memory: MemoryServer
  /// The rates of devices, as the configuration says now.
  package var limits = RateLimits.none

  package init(seed: UInt64, faults: Faults, settings: WorldSettings = WorldSettings()) {
    random = SeededRandom(seed: seed)
    self.faults = faults
    self.settings = settings
    auditor = Auditor()
    broker = BrokerServer()
    apns = APNsServer()
    memory = MemoryServer()
    limits = settings.limits
  }

  package var now: Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: milliseconds + skewMilliseconds)
  }

  /// A number from 0 to `bound` - 1.
  package func pick(_ bound: Int) -> Int {
    Int(random.next() % UInt64(bound))
  }

  /// Happens `perMille` times in a thousand.
  package func chance(_ perMille: Int) -> Bool {
    pick(1000) < perMille
  }
}

/// How a world is built: what does not go wrong, but is so.
package struct WorldSettings: Sendable {
  package var jobs = 120
  /// Workers at once, a lane each.
  package var workers = 1
  /// As `rabbitmq.prefetch`: half of it for each class.
  package var prefetch = 40
  package var retry = RetryPolicy()
  package var isolation = IsolationPolicy()
  /// Streams that APNs allows on a connection.
  package var streams = 12
  package var connections = 2
  /// How far time moves at once where nothing is due, milliseconds.
  package var stepMilliseconds: Int64 = 100
  /// Of a request to APNs.
  package var timeoutMilliseconds: Int64 = 10_000
  package var limits = RateLimits.none
  /// Jobs carry enqueue times, collapse ids, ends and registrations, and come over a while.
  package var hasVariedJobs = false
  /// What is done wrong on purpose.
  package var mistake: Mistake?
  /// After so long the storm is over, milliseconds.
  package var stormMilliseconds: Int64 = 300_000

  package init() {}
}

/// A mistake beside the lane that breaks the promise: the auditor must see it.
package enum Mistake: Sendable {
  /// A stream is named by its job: what is reported late of a request that was given up is taken for its successor's.
  case namesRequestsByJob
  /// The admission store does not know who is on the way to APNs.
  case forgetsClaims
  /// Whatever a 410 says of an earlier registration marks the device dead.
  case marksEveryDevice
}

/// The simulated clock.
package struct SimulatedClock: LaneClock {
  let world: SimulatedWorld

  package init(world: SimulatedWorld) {
    self.world = world
  }

  package var now: Now { world.now }
}
