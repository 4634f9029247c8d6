import PushCore

/// Everything that the simulator keeps between turns: one value behind one lock, which a turn takes once.
struct SimulatorState: Sendable {
  var service: SimulatedService
  var plan: FaultPlan
  var ledger = Ledger()
  var clockOffsetSeconds: Int64
  /// The results of registrations, as of the engine's last turn.
  var registrationProgress = RegistrationProgress()
  /// For the engine's next turn.
  var pendingActions: [SimulatorAction] = []

  init(_ options: SimulatorOptions) throws(SimulatorError) {
    service = SimulatedService(environment: options.environment, seed: options.seed)
    service.checksPayloads = options.checksPayloads
    service.checksCredentials = options.checksCredentials
    service.tokens.acceptsAnyKey = options.acceptsAnyKey
    service.tokens.limits.updateIntervalSeconds = options.tokenUpdateIntervalSeconds
    service.tokens.limits.updateScope = options.tokenScope
    service.devices.requestsPerSecondMaximum = options.deviceRequestsPerSecond
    service.activities.settings.registerMilliseconds = Int64(max(0, options.registerAfterMilliseconds))
    service.activities.settings.idPath = options.activityIDAttribute.split(separator: ".").map(String.init)
    service.activities.settings.activitiesMaximum = options.isFast ? 0 : max(0, options.activitiesMaximum)
    for key in options.keys { service.tokens.register(key) }
    do {
      plan = FaultPlan(
        prefixes: options.usesTokenPrefixes ? try TokenPrefixTable() : TokenPrefixTable(empty: ()), seed: options.seed)
    } catch {
      throw SimulatorError("the table of token prefixes: \(error)")
    }
    for fault in options.faults { plan.add(fault) }
    ledger.bounds = options.ledgerBounds
    clockOffsetSeconds = options.clockOffsetSeconds
  }

  /// Forgets requests and counts; connections that are open keep their numbers.
  mutating func clearLedger() {
    ledger.clearRequests()
    service.activities.clearCounts()
    ledger.activities = ActivityCounts()
  }

  /// Puts the devices' counts into the ledger.
  mutating func countActivities() {
    var counts = service.activities.counts
    counts.take(registrationProgress)
    ledger.activities = counts
  }

  /// The simulated Apple's time.
  func time(_ now: Now) -> Now {
    Now(monotonic: now.monotonic, unixMilliseconds: now.unixMilliseconds &+ clockOffsetSeconds &* 1000)
  }
}
