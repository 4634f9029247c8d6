import PushCore

/// All events of a world, drawn from its seed before it starts: if some are left out, the others stay the same.
package struct WorkerPlan: Sendable {
  package struct Fault: Sendable {
    package let kind: WorkerFault
    /// The world's nanoseconds.
    package var at: Int64
    /// The duration, if the fault has one.
    package var nanoseconds: Int64
    /// Selects the target.
    let draw: UInt64
  }

  package let seed: UInt64
  package var settings: WorkerWorld.Settings
  /// By number; nil: left out.
  package var jobs: [(job: SimulatedJob, at: Int64)?] = []
  package var faults: [Fault?] = []
  /// Events of devices, audiences and activities, likewise.
  package var audiences: [SimulatedAudienceEvent?] = []
  /// Of operators.
  var commands: [SimulatedCommand] = []

  private static let productionStart: Int64 = 500_000_000
  /// Workers have connections by then.
  private static let readyNanoseconds: Int64 = 3_000_000_000
  /// From the time of faults to the aftermath: what was under way or paused has come by then.
  private static let aftermathNanoseconds: Int64 = 110_000_000_000

  package init(seed: UInt64, settings: WorkerWorld.Settings = WorkerWorld.Settings()) {
    self.seed = seed
    self.settings = settings
    var random = SeededRandom(seed: seed ^ 0x706C_616E_0000_0000)
    let share = settings.productionMilliseconds * 1_000_000 / Int64(max(1, settings.jobs))
    for number in 0..<settings.jobs {
      let at = WorkerPlan.productionStart + share * Int64(number)
      let unixSeconds = (WorkerWorld.unixMillisecondsAtZero + at / 1_000_000) / 1000
      jobs.append(
        (
          SimulatedJob(
            number: number, unixSeconds: unixSeconds, settings, random: &random), at
        ))
    }
    addTenants()
    addRivals()
    addFleeting()
    audiences = SimulatedAudienceEvent.plan(seed: seed, settings)
    for _ in 0..<(settings.faults.isEmpty ? 0 : settings.faultCount) {
      let kind = settings.faults[Int(random.next() % UInt64(settings.faults.count))]
      let at = Int64(random.next() % UInt64(settings.stormMilliseconds)) * 1_000_000
      let nanoseconds = Int64(1 + random.next() % 8_000) * 1_000_000
      faults.append(Fault(kind: kind, at: at, nanoseconds: nanoseconds, draw: random.next()))
    }
    addOutage()
    if settings.hasAftermath {
      audiences += SimulatedAudienceEvent.aftermath(seed: seed, settings, from: aftermath)
    }
    commands = SimulatedCommand.plan(seed: seed, settings, audiences, aftermath: aftermath)
  }

  /// When all faults are over, and nothing of them is left that an auditor could not see through.
  var aftermath: Int64 {
    let storm = settings.stormMilliseconds * 1_000_000
    return max(storm, settings.outageNanoseconds.map { $0 + storm } ?? 0) + WorkerPlan.aftermathNanoseconds
  }

  /// APNs is in trouble for minutes.
  private mutating func addOutage() {
    guard let nanoseconds = settings.outageNanoseconds else { return }
    var random = SeededRandom(seed: seed ^ 0x6F75_7461_6765_0000)
    let at = WorkerPlan.readyNanoseconds + Int64(random.next() % 10_000) * 1_000_000
    let draw = random.next()
    faults.append(Fault(kind: draw & 2 == 0 ? .failAPNs : .slowAPNs, at: at, nanoseconds: nanoseconds, draw: draw))
  }

  /// The jobs of a tenant whose APNs is in trouble: four of five at once, when workers are ready. And those of another tenant, from then on.
  private mutating func addTenants() {
    var random = SeededRandom(seed: seed ^ 0x7465_6E61_6E74_7300)
    func pick(_ bound: Int64) -> Int64 { Int64(random.next() % UInt64(bound)) }
    let start = WorkerPlan.productionStart + WorkerPlan.readyNanoseconds
    let span = max(1, settings.stormMilliseconds * 1_000_000 - start)
    for _ in 0..<settings.stuckJobs {
      let at = start + (pick(5) == 0 ? pick(span / 2) : 0)
      let targets = pick(20) == 0 ? 1 + Int(pick(30)) : 1
      jobs.append((SimulatedJob(number: jobs.count, .stuck, isBulk: pick(2) == 0, targets: targets), at))
    }
    for _ in 0..<settings.punctualJobs {
      jobs.append((SimulatedJob(number: jobs.count, .punctual, isBulk: pick(2) == 0, targets: 1), start + pick(span)))
    }
  }

  /// Jobs that replace each other, some at about the same time, in any order.
  private mutating func addRivals() {
    var random = SeededRandom(seed: seed ^ 0x7269_7661_6C73_0000)
    func pick(_ bound: Int64) -> Int64 { Int64(random.next() % UInt64(bound)) }
    let start = WorkerPlan.productionStart + WorkerPlan.readyNanoseconds
    let span = max(1, settings.stormMilliseconds * 1_000_000 - start)
    var left = settings.rivalJobs
    while left > 0 {
      let at = start + pick(span)
      let (device, collapse, isBulk) = (Int(pick(2)), pick(2), pick(4) == 0)
      let count = min(left, 1 + Int(pick(5)))
      left -= count
      for number in 0..<count {
        let rank = SimulatedJob.Rank(
          collapseID: "rival-\(collapse)",
          sequence: (WorkerWorld.unixMillisecondsAtZero * 1_000_000 + at) / 1_000 + Int64(number))
        let job = SimulatedJob(number: jobs.count, device: device, rank, isBulk: isBulk)
        jobs.append((job, at + pick(20) * 1_000_000))
      }
    }
  }

  private mutating func addFleeting() {
    var random = SeededRandom(seed: seed ^ 0x666C_6565_7469_6E67)
    func pick(_ bound: Int64) -> Int64 { Int64(random.next() % UInt64(bound)) }
    let span = max(1, settings.stormMilliseconds * 1_000_000 - WorkerPlan.productionStart)
    for _ in 0..<settings.fleetingJobs {
      let lifetime = pick(5) == 0 ? nil : pick(2_000)
      let job = SimulatedJob(number: jobs.count, lifetimeMilliseconds: lifetime, isBulk: pick(2) == 0)
      jobs.append((job, WorkerPlan.productionStart + pick(span)))
    }
  }

  package var jobCount: Int { jobs.count { $0 != nil } }
  package var faultCount: Int { faults.count { $0 != nil } }

  /// Keeps only these jobs.
  package func keeping(jobs kept: Set<Int>) -> WorkerPlan {
    var plan = self
    for number in jobs.indices where !kept.contains(number) { plan.jobs[number] = nil }
    return plan
  }

  /// Keeps only these faults.
  package func keeping(faults kept: Set<Int>) -> WorkerPlan {
    var plan = self
    for number in faults.indices where !kept.contains(number) { plan.faults[number] = nil }
    return plan
  }

  /// Keeps only these audience events.
  package func keeping(audiences kept: Set<Int>) -> WorkerPlan {
    var plan = self
    for number in audiences.indices where !kept.contains(number) { plan.audiences[number] = nil }
    return plan
  }

  /// The numbers of the remaining jobs.
  package var jobNumbers: [Int] { jobs.indices.filter { jobs[$0] != nil } }
  package var faultNumbers: [Int] { faults.indices.filter { faults[$0] != nil } }
  package var audienceNumbers: [Int] { audiences.indices.filter { audiences[$0] != nil } }
}
