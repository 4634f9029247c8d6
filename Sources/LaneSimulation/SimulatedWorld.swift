package import PushCore
package import PushWorker

/// Everything around a lane, simulated from one seed: a broker, shared state, APNs and time. The same seed gives the same
/// run, step by step.
package final class SimulatedWorld {
  package var random: SeededRandom
  package var faults: Faults
  /// The monotonic clock; the other one is ahead of it by `skewMilliseconds`.
  package var milliseconds: Int64 = 1_800_000_000_000
  package var skewMilliseconds: Int64 = 0
  package let auditor = Auditor()
  /// Jobs that end the worker whenever it sends them.
  package var poison: Set<String> = []
  /// The worker is ending in the middle of its turn: nothing of what it does any more reaches anybody.
  package var isDying = false
  package let broker: BrokerServer
  package let apns: APNsServer
  package let memory: MemoryServer

  package init(seed: UInt64, faults: Faults) {
    random = SeededRandom(seed: seed)
    self.faults = faults
    broker = BrokerServer()
    apns = APNsServer()
    memory = MemoryServer()
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

/// How often things go wrong, in thousandths.
package struct Faults {
  /// Per step.
  package var consumerLost = 0
  package var publisherLost = 0
  package var brokerBlocked = 0
  package var queueFull = 0
  package var workerKilled = 0
  package var memoryForgets = 0
  package var clockJumps = 0
  /// Per job.
  package var publishedTwice = 0
  /// Per retry copy.
  package var handedOnTwice = 0
  /// Per publish.
  package var publishRefused = 0
  /// Per request.
  package var serverError = 0
  package var lostAfterProcessing = 0
  package var lostBeforeProcessing = 0
  package var notProcessed = 0
  package var rejected = 0
  package var unregistered = 0
  /// Per admission.
  package var memoryFailsOpen = 0

  /// Nothing goes wrong.
  package init() {}

  /// Everything does.
  package static var many: Faults {
    var faults = Faults()
    faults.consumerLost = 8
    faults.publisherLost = 8
    faults.brokerBlocked = 4
    faults.queueFull = 4
    faults.workerKilled = 3
    faults.memoryForgets = 1
    faults.clockJumps = 2
    faults.publishedTwice = 30
    faults.handedOnTwice = 100
    faults.publishRefused = 20
    faults.serverError = 30
    faults.lostAfterProcessing = 15
    faults.lostBeforeProcessing = 15
    faults.notProcessed = 30
    faults.rejected = 30
    faults.unregistered = 20
    faults.memoryFailsOpen = 20
    return faults
  }
}

/// What has an end: a job's id and one of its targets.
package struct Target: Hashable {
  package var job: String
  package var token: String

  package init(job: String, token: String) {
    self.job = job
    self.token = token
  }
}

/// A message as the broker keeps it.
package struct Message {
  package var body: [UInt8]
  package var state: RetryState?
  package var jobClass: JobClass
  /// What must have an end before it may be acknowledged; read from the body by the world, not by the lane.
  package var targets: [Target]
  /// When its first copy was received, of a copy that carries no other state.
  package var firstSeen: Int64?
  /// How often it was given to somebody who did not settle it.
  package var deliveryCount: UInt32 = 0
  /// What the copy in the queue for suspects carries of the message before it.
  package var carriedDeliveries: UInt32 = 0
  /// It belongs to the queue for suspects.
  package var isAlone = false
  /// What a copy without other state says of earlier attempts.
  package var isAmbiguous = false
  /// Of a dead letter that was one target of a batch.
  package var apnsID: UUIDValue?
  /// Of a dead letter: under which claim its last attempt was admitted.
  package var claim: UInt32 = 0

  package init(
    body: [UInt8], state: RetryState?, jobClass: JobClass, targets: [Target], firstSeen: Int64? = nil,
    carriedDeliveries: UInt32 = 0, isAlone: Bool = false, isAmbiguous: Bool = false
  ) {
    self.body = body
    self.state = state
    self.jobClass = jobClass
    self.targets = targets
    self.firstSeen = firstSeen
    self.carriedDeliveries = carriedDeliveries
    self.isAlone = isAlone
    self.isAmbiguous = isAmbiguous
  }
}

/// The simulated clock.
package struct SimulatedClock: LaneClock {
  let world: SimulatedWorld

  package init(world: SimulatedWorld) {
    self.world = world
  }

  package var now: Now { world.now }
}
