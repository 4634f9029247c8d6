import PushCore
import PushWorker

/// Everything around a lane, simulated from one seed: a broker, shared state, APNs and time. The same seed gives the same
/// run, step by step.
final class SimulatedWorld {
  var random: SeededRandom
  var faults: Faults
  /// Unix milliseconds, and the monotonic clock with it.
  var milliseconds: Int64 = 1_800_000_000_000
  let auditor = Auditor()
  /// Jobs that end the worker whenever it sends them.
  var poison: Set<String> = []
  /// The worker is ending in the middle of its turn: nothing of what it does any more reaches anybody.
  var isDying = false
  let broker: BrokerServer
  let apns: APNsServer
  let memory: MemoryServer

  init(seed: UInt64, faults: Faults) {
    random = SeededRandom(seed: seed)
    self.faults = faults
    broker = BrokerServer()
    apns = APNsServer()
    memory = MemoryServer()
  }

  var now: Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: milliseconds)
  }

  /// A number from 0 to `bound` - 1.
  func pick(_ bound: Int) -> Int {
    Int(random.next() % UInt64(bound))
  }

  /// Happens `perMille` times in a thousand.
  func chance(_ perMille: Int) -> Bool {
    pick(1000) < perMille
  }
}

/// How often things go wrong, in thousandths.
struct Faults {
  /// Per step.
  var consumerLost = 0
  var publisherLost = 0
  var brokerBlocked = 0
  var workerKilled = 0
  var memoryForgets = 0
  /// Per publish.
  var publishRefused = 0
  /// Per request.
  var serverError = 0
  var lostAfterProcessing = 0
  var lostBeforeProcessing = 0
  var notProcessed = 0
  var rejected = 0
  var unregistered = 0
  /// Per admission.
  var memoryFailsOpen = 0

  static let none = Faults()
  static let many = Faults(
    consumerLost: 8, publisherLost: 8, brokerBlocked: 4, workerKilled: 3, memoryForgets: 1, publishRefused: 20,
    serverError: 30, lostAfterProcessing: 15, lostBeforeProcessing: 15, notProcessed: 30, rejected: 30,
    unregistered: 20,
    memoryFailsOpen: 20)
}

/// What has an end: a job's id and one of its targets.
struct Target: Hashable {
  var job: String
  var token: String
}

/// A message as the broker keeps it.
struct Message {
  var body: [UInt8]
  var state: RetryState?
  var jobClass: JobClass
  /// What must have an end before it may be acknowledged; read from the body by the world, not by the lane.
  var targets: [Target]
  /// When its first copy was received, of a copy that carries no other state.
  var firstSeen: Int64?
  /// How often it was given to somebody who did not settle it.
  var deliveryCount: UInt32 = 0
  /// What the copy in the queue for suspects carries of the message before it.
  var carriedDeliveries: UInt32 = 0
  /// It belongs to the queue for suspects.
  var isAlone = false
}

/// The simulated clock.
struct SimulatedClock: LaneClock {
  let world: SimulatedWorld
  var now: Now { world.now }
}
