import PushCore

/// What one lane decides while Redis is late or down, and what it remembers until Redis takes it (`RedisCatchUp`).
struct LocalAdmissions: ~Copyable {
  private var memory: AdmissionMemory

  init(settings: RedisAdmissionStoreSettings) {
    var memorySettings = AdmissionMemory.Settings()
    memorySettings.shares = settings.localShares
    memorySettings.outcomeSeconds = settings.outcomeSeconds
    memorySettings.claimSeconds = settings.claimSeconds
    memorySettings.deadSeconds = settings.deadSeconds
    memorySettings.tightMilliseconds = settings.tightMilliseconds
    memorySettings.collapseMilliseconds = settings.collapseMilliseconds
    memorySettings.orderWaitSeconds = settings.orderWaitSeconds
    memory = AdmissionMemory(settings: memorySettings)
  }

  /// What is known here against sending, before Redis is asked; nil: nothing.
  mutating func recall(_ request: AdmissionRequest, now: Now) -> Admission? {
    memory.mayRecall(now: now) ? memory.recall(request, now: now) : nil
  }

  /// Decides without Redis, by what this lane saw and its share of the rate. Whether the job was sent before, or another lane is sending
  /// it, is unknown.
  mutating func decide(_ request: AdmissionRequest, now: Now) -> Admission {
    memory.admit(request, now: now).asRepeated
  }

  /// The job is no longer in flight. Returns whether it was decided here, so that Redis has no claim for it.
  mutating func takeClaim(of request: AdmissionRequest) -> Bool {
    memory.takeClaim(of: request)
  }

  mutating func tighten(_ request: AdmissionRequest, now: Now) {
    memory.tighten(request, now: now)
  }

  /// Where Redis takes it, it is not kept here.
  mutating func rememberFate(_ outcome: RememberedOutcome, claim: UInt32, of request: AdmissionRequest, now: Now) {
    memory.rememberFate(outcome, claim: claim, of: request, now: now)
  }

  // MARK: - What Redis is to remember

  mutating func remember(_ outcome: RememberedOutcome, of request: AdmissionRequest, now: Now) {
    memory.remember(outcome, of: request, now: now)
  }

  /// Redis has missed nothing.
  var isEmpty: Bool { memory.isEmpty }

  mutating func takeRemembered() -> (request: AdmissionRequest, outcome: RememberedOutcome)? {
    memory.takeRemembered()
  }
}
