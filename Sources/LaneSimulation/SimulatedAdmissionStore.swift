package import PushCore
import PushLane

/// The admission store's data: the rules of the script in Redis, as implemented by the lane's own memory.
package final class MemoryServer {
  private var memory = AdmissionMemory(settings: .small)
  /// The answers that it stored.
  package private(set) var answered: [UUIDValue: RememberedOutcome] = [:]
  /// The time in any 410 for a device.
  private var marks: [TargetKey: Int64] = [:]
  /// It is unreachable until then.
  package var awayUntil: Int64 = 0
  /// It hangs until then.
  package var frozenUntil: Int64 = 0

  package func forgetEverything() {
    memory = AdmissionMemory(settings: .small)
    answered = [:]
    marks = [:]
  }

  fileprivate func admit(_ request: AdmissionRequest, _ world: SimulatedWorld) -> Admission {
    world.auditor.asked(request.apnsID, at: world.milliseconds)
    if let mistaken = mistakenAdmission(request, world) { return mistaken }
    if answered[request.apnsID] == nil, world.chance(world.faults.overRate) {
      return .limited(retryAfterMilliseconds: Int64(1 + world.pick(4000)))
    }
    return memory.admit(request, now: world.memoryNow)
  }

  /// Its answer for a mistake made on purpose.
  private func mistakenAdmission(_ request: AdmissionRequest, _ world: SimulatedWorld) -> Admission? {
    switch world.settings.mistake {
    case .forgetsClaims: answered[request.apnsID].map { .duplicate($0) } ?? .proceed
    case .marksEveryDevice where answered[request.apnsID] == nil:
      marks[request.device].flatMap { request.registeredAt <= $0 ? .dead(unregisteredAt: $0) : nil }
    case .marksEveryDevice, .namesRequestsByJob, nil: nil
    }
  }

  fileprivate func remember(_ outcome: RememberedOutcome, of request: AdmissionRequest, _ world: SimulatedWorld) {
    answered[request.apnsID] = outcome
    world.auditor.answered(request.apnsID, at: world.milliseconds)
    if let time = outcome.unregisteredAt { marks[request.device] = max(time, marks[request.device] ?? 0) }
    memory.remember(outcome, of: request, now: world.memoryNow)
  }

  fileprivate func rememberFate(
    _ outcome: RememberedOutcome, _ claim: UInt32, of request: AdmissionRequest, _ world: SimulatedWorld
  ) {
    memory.rememberFate(outcome, claim: claim, of: request, now: world.memoryNow)
  }

  fileprivate func tighten(_ request: AdmissionRequest, _ world: SimulatedWorld) {
    memory.tighten(request, now: world.memoryNow)
  }
}

extension AdmissionMemory.Settings {
  /// As many entries as a world needs: large tables take longer to create than a run to play.
  fileprivate static var small: AdmissionMemory.Settings {
    var settings = AdmissionMemory.Settings()
    settings.entriesMaximum = 4096
    return settings
  }
}

extension SimulatedWorld {
  /// Clock jumps do not affect the admission store's own clock.
  fileprivate var memoryNow: Now {
    Now(monotonic: Instant(nanoseconds: milliseconds * 1_000_000), unixMilliseconds: milliseconds)
  }
}

/// One lane's connection to the admission store: late answers in any order, and the lane's own memory after a failure. A request that the
/// lane gave up may still be executed.
package final class SimulatedAdmissionStore: AdmissionStore {
  private enum Command {
    case admit(AdmissionRequest, Ticket)
    case remember(RememberedOutcome, AdmissionRequest)
    case rememberFate(RememberedOutcome, UInt32, AdmissionRequest)
    case tighten(AdmissionRequest)
  }

  /// An admission that the lane waits for.
  private struct Asked {
    var ticket: Ticket
    var request: AdmissionRequest
    /// After this time the lane's own memory decides.
    var deadline: Int64
    var answer: (at: Int64, admission: Admission)?
  }

  package let world: SimulatedWorld
  /// In flight, in order.
  private var commands: [(at: Int64, command: Command)] = []
  private var asked: [Asked] = []
  /// What the admission store must remember when it is back; until then it decides here.
  private var memory = AdmissionMemory(settings: .small)
  private var limits: RateLimits
  private let timeoutMilliseconds: Int64 = 60

  package init(world: SimulatedWorld) {
    self.world = world
    limits = world.limits
    memory.settings.shares = world.settings.workers
  }

  /// When the next event is due.
  package var nextDue: Int64 {
    let due = commands.first?.at ?? .max
    return asked.reduce(due) { min($0, $1.answer?.at ?? $1.deadline) }
  }

  private var isAway: Bool { world.milliseconds < world.memory.awayUntil }

  package func admit(
    _ job: borrowing PushJob, device: TargetKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    let request = AdmissionRequest(job, device: device, apnsID: apnsID, arrival: arrival, limits: limits)
    var waiting = Asked(ticket: ticket, request: request, deadline: world.milliseconds + timeoutMilliseconds)
    if memory.mayRecall(now: now), let known = memory.recall(request, now: now) {
      waiting.answer = (world.milliseconds, known)
    } else if world.chance(world.faults.memoryFailsOpen) {
      // Its answer comes too late, or the question was lost.
      waiting.answer = (world.milliseconds, decide(request, now))
      if world.chance(500) { send(.admit(request, ticket)) }
    } else if !isAway {
      send(.admit(request, ticket))
    }
    asked.append(waiting)
  }

  private func send(_ command: Command) {
    let at = max(world.milliseconds + Int64(world.pick(10)), world.memory.frozenUntil)
    commands.append((max(at, commands.last?.at ?? 0), command))
  }

  /// Without the admission store it is unknown whether the job was sent before, or another lane is sending it.
  private func decide(_ request: AdmissionRequest, _ now: Now) -> Admission {
    world.auditor.decidedAlone(request.apnsID)
    return memory.admit(request, now: now).asRepeated
  }

  /// Executes the requests that reached the admission store.
  private func execute() {
    while let next = commands.first, next.at <= world.milliseconds {
      commands.removeFirst()
      switch next.command {
      case .admit(let request, let ticket):
        let admission = world.memory.admit(request, world)
        if let index = asked.firstIndex(where: { $0.ticket == ticket && $0.answer == nil }) {
          asked[index].answer = (next.at + Int64(world.pick(10)), admission)
        }
      case .remember(let outcome, let request): world.memory.remember(outcome, of: request, world)
      case .rememberFate(let outcome, let claim, let request):
        world.memory.rememberFate(outcome, claim, of: request, world)
      case .tighten(let request): world.memory.tighten(request, world)
      }
    }
  }

  package func flush(now: Now) {}

  package func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    if isAway {
      // Requests in flight may or may not arrive; no answer comes back.
      if !commands.isEmpty { loseCommands(now) }
    } else {
      execute()
      catchUp()
    }
    let time = world.milliseconds
    for index in asked.indices where asked[index].answer == nil && asked[index].deadline <= time {
      asked[index].answer = (time, decide(asked[index].request, now))
    }
    guard let index = asked.firstIndex(where: { $0.answer.map { $0.at <= time } ?? false }),
      let answer = asked[index].answer
    else { return nil }
    return (asked.remove(at: index).ticket, answer.admission)
  }

  private func loseCommands(_ now: Now) {
    let reached = world.pick(commands.count + 1)
    for (place, command) in commands.map(\.command).enumerated() {
      switch command {
      case .admit(let request, _):
        if place < reached { _ = world.memory.admit(request, world) }
      case .remember(let outcome, let request):
        if place < reached { world.memory.remember(outcome, of: request, world) }
        memory.remember(outcome, of: request, now: now)
      case .rememberFate(let outcome, let claim, let request):
        if place < reached { world.memory.rememberFate(outcome, claim, of: request, world) }
      case .tighten: break
      }
    }
    commands = []
  }

  private func catchUp() {
    while !memory.isEmpty, let (request, outcome) = memory.takeRemembered() { send(.remember(outcome, request)) }
  }

  package func remember(_ outcome: RememberedOutcome, device: TargetKey, apnsID: UUIDValue, now: Now) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    if isAway { memory.remember(outcome, of: request, now: now) } else { send(.remember(outcome, request)) }
  }

  package func rememberFate(
    _ outcome: RememberedOutcome, claim: UInt32, device: TargetKey, apnsID: UUIDValue, now: Now
  ) {
    let request = AdmissionRequest(device: device, apnsID: apnsID)
    if isAway {
      memory.rememberFate(outcome, claim: claim, of: request, now: now)
    } else {
      send(.rememberFate(outcome, claim, request))
    }
  }

  package func tighten(_ job: borrowing PushJob, device: TargetKey, now: Now) {
    let request = AdmissionRequest(job, device: device, limits: limits)
    memory.tighten(request, now: now)
    if !isAway { send(.tighten(request)) }
  }

  /// Applies to later questions.
  package func update(limits: RateLimits) {
    self.limits = limits
  }

  /// The worker is gone: its last requests may or may not have been sent.
  package func die() {
    for (_, command) in commands.prefix(world.pick(commands.count + 1)) {
      switch command {
      case .admit(let request, _): _ = world.memory.admit(request, world)
      case .remember(let outcome, let request): world.memory.remember(outcome, of: request, world)
      case .rememberFate(let outcome, let claim, let request):
        world.memory.rememberFate(outcome, claim, of: request, world)
      case .tighten: break
      }
    }
    commands = []
  }
}
