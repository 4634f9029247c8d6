import PushCore
import PushWorker

/// What shared state keeps.
final class MemoryServer {
  var answered: [UUIDValue: RememberedOutcome] = [:]
  var dead: [String: Int64] = [:]
}

/// One lane's connection to shared state: answers late, in any order, and open where it fails.
struct SimulatedState: SharedState {
  let world: SimulatedWorld
  private var answers: [(at: Int64, ticket: Ticket, admission: Admission)] = []

  init(world: SimulatedWorld) {
    self.world = world
  }

  mutating func admit(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    answers.append((now.unixMilliseconds + Int64(world.pick(20)), ticket, admission(job, target, apnsID)))
  }

  private func admission(_ job: borrowing PushJob, _ target: Int, _ apnsID: UUIDValue) -> Admission {
    if world.chance(world.faults.memoryFailsOpen) { return .proceed }
    if let remembered = world.memory.answered[apnsID] { return .duplicate(remembered) }
    let token = String(decoding: job.bytes[job.targets[target].range], as: UTF8.self)
    if let unregisteredAt = world.memory.dead[token] { return .dead(unregisteredAt: unregisteredAt) }
    if world.chance(20) { return .limited(retryAfterMilliseconds: Int64(1 + world.pick(4000))) }
    return .proceed
  }

  mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard let index = answers.firstIndex(where: { $0.at <= now.unixMilliseconds }) else { return nil }
    let answer = answers.remove(at: index)
    return (answer.ticket, answer.admission)
  }

  mutating func remember(
    _ outcome: RememberedOutcome, of job: borrowing PushJob, target: Int, apnsID: UUIDValue, now: Now
  ) {
    world.memory.answered[apnsID] = outcome
    if outcome.outcome == .unregistered, let unregisteredAt = outcome.unregisteredAt {
      world.memory.dead[String(decoding: job.bytes[job.targets[target].range], as: UTF8.self)] = unregisteredAt
    }
  }

  mutating func tighten(_ job: borrowing PushJob, target: Int, now: Now) {}
}
