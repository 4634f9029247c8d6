package import PushCore
import PushLane

/// Everything around a lane, simulated from one seed: a broker, the admission store, APNs and time. The same seed gives the same run, step
/// by step.
package final class SimulatedWorld {
  package var random: SeededRandom
  package var faults: Faults
  package let settings: WorldSettings
  /// The monotonic clock; the wall clock is ahead of it by `skewMilliseconds`.
  package var milliseconds: Int64 = 1_800_000_000_000
  package var skewMilliseconds: Int64 = 0
  package let auditor: Auditor
  /// Jobs that end the worker when it sends them.
  package var poison: Set<String> = []
  /// The worker is ending in the middle of its turn: nothing that it still does takes effect.
  package var isDying = false
  package let broker: BrokerServer
  package let apns: APNsServer
  package let memory: MemoryServer
  package let registry: RegistryServer
  /// The rates of devices in the current configuration.
  package var limits = RateLimits.none

  package init(seed: UInt64, faults: Faults, settings: WorldSettings = WorldSettings()) {
    random = SeededRandom(seed: seed)
    self.faults = faults
    self.settings = settings
    auditor = Auditor()
    broker = BrokerServer()
    apns = APNsServer()
    memory = MemoryServer()
    registry = RegistryServer(auditor: auditor)
    limits = settings.limits
  }

  package var now: Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: milliseconds + skewMilliseconds)
  }

  /// A number from 0 to `bound` - 1.
  package func pick(_ bound: Int) -> Int {
    Int(random.next() % UInt64(bound))
  }

  /// True with a probability of `perMille`/1000.
  package func chance(_ perMille: Int) -> Bool {
    pick(1000) < perMille
  }
}

/// How a world is built, apart from faults.
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
  /// How far time jumps if nothing is due, milliseconds.
  package var stepMilliseconds: Int64 = 100
  /// Of a request to APNs.
  package var timeoutMilliseconds: Int64 = 10_000
  package var limits = RateLimits.none
  /// Jobs carry enqueue times, collapse ids, expirations and registrations, and are published over time.
  package var hasVariedJobs = false
  /// Per mille of the first app's jobs that are pages of audiences.
  package var pagesPerMille = 0
  /// A mistake made on purpose.
  package var mistake: Mistake?
  /// After this time there are no more faults, milliseconds.
  package var stormMilliseconds: Int64 = 300_000

  package init() {}
}

/// A mistake outside the lane that breaks the promise: the auditor must detect it.
package enum Mistake: Sendable {
  /// A stream is named by its job, so a late report about an old request is attributed to the new one.
  case namesRequestsByJob
  /// The admission store forgets which jobs are in flight.
  case forgetsClaims
  /// A 410 about an earlier registration marks the device dead.
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
