package import PushCore
import PushWorker

/// What shared state keeps.
package final class MemoryServer {
  package var answered: [UUIDValue: RememberedOutcome] = [:]
  package var dead: [GateKey: Int64] = [:]
  /// The newest copy of each (job, target) that was asked about: its first receipt and its number.
  package var claimed: [UUIDValue: (firstSeen: Int64, copy: UInt32)] = [:]
}

/// One lane's connection to shared state: answers late, in any order, and open where it fails.
package struct SimulatedState: SharedState {
  package let world: SimulatedWorld
  private var answers: [(at: Int64, ticket: Ticket, admission: Admission)] = []

  package init(world: SimulatedWorld) {
    self.world = world
  }

  package mutating func admit(
    _ job: borrowing PushJob, device: GateKey, apnsID: UUIDValue, arrival: JobArrival, ticket: Ticket, now: Now
  ) {
    answers.append((world.milliseconds + Int64(world.pick(20)), ticket, admission(device, apnsID, arrival)))
  }

  package mutating func flush(now: Now) {}

  private func admission(_ device: GateKey, _ apnsID: UUIDValue, _ arrival: JobArrival) -> Admission {
    if world.chance(world.faults.memoryFailsOpen) { return arrival.copy > 0 ? .repeated(.proceed) : .proceed }
    if let remembered = world.memory.answered[apnsID] { return .duplicate(remembered) }
    if let unregisteredAt = world.memory.dead[device] { return .dead(unregisteredAt: unregisteredAt) }
    let isClaimed = claim(apnsID, arrival)
    let answer: Admission =
      world.chance(20) ? .limited(retryAfterMilliseconds: Int64(1 + world.pick(4000))) : .proceed
    return isClaimed ? .repeated(answer) : answer
  }

  /// Whether the copy, or one after it, was asked about before.
  private func claim(_ apnsID: UUIDValue, _ arrival: JobArrival) -> Bool {
    guard arrival.copy > 0 else { return false }
    if let newest = world.memory.claimed[apnsID], newest >= (arrival.firstSeen, arrival.copy) { return true }
    world.memory.claimed[apnsID] = (arrival.firstSeen, arrival.copy)
    return false
  }

  package mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard let index = answers.firstIndex(where: { $0.at <= world.milliseconds }) else { return nil }
    let answer = answers.remove(at: index)
    return (answer.ticket, answer.admission)
  }

  package mutating func remember(_ outcome: RememberedOutcome, device: GateKey, apnsID: UUIDValue, now: Now) {
    world.memory.answered[apnsID] = outcome
    if outcome.outcome == .unregistered, let unregisteredAt = outcome.unregisteredAt {
      world.memory.dead[device] = unregisteredAt
    }
  }

  package mutating func tighten(_ job: borrowing PushJob, device: GateKey, now: Now) {}
}
