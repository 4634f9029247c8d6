package import PushCore
import PushWorker

/// What shared state keeps.
package final class MemoryServer {
  package var answered: [UUIDValue: RememberedOutcome] = [:]
  package var dead: [GateKey: Int64] = [:]
  /// Who was admitted last for each (job, target), and until when its answer is waited for.
  package var claimed: [UUIDValue: (claim: UInt32, until: Int64)] = [:]
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
    if world.chance(world.faults.memoryFailsOpen) { return .repeated(.proceed) }
    if let remembered = world.memory.answered[apnsID] { return .duplicate(remembered) }
    var isRepeated = false
    if let (claim, until) = world.memory.claimed[apnsID] {
      if claim != arrival.earlierClaim {
        if until > world.milliseconds, !arrival.isRedelivered {
          return .claimed(retryAfterMilliseconds: until - world.milliseconds)
        }
        isRepeated = true
      }
    } else {
      isRepeated = arrival.isReturning && arrival.earlierClaim != 0
    }
    let answer: Admission
    if let unregisteredAt = world.memory.dead[device] {
      answer = .dead(unregisteredAt: unregisteredAt)
    } else if world.chance(20) {
      answer = .limited(retryAfterMilliseconds: Int64(1 + world.pick(4000)))
    } else {
      answer = .proceed
      world.memory.claimed[apnsID] = (arrival.claim, world.milliseconds + 60_000)
    }
    return isRepeated ? .repeated(answer) : answer
  }

  package mutating func nextAdmission(now: Now) -> (ticket: Ticket, admission: Admission)? {
    guard let index = answers.firstIndex(where: { $0.at <= world.milliseconds }) else { return nil }
    let answer = answers.remove(at: index)
    return (answer.ticket, answer.admission)
  }

  package mutating func remember(_ outcome: RememberedOutcome, device: GateKey, apnsID: UUIDValue, now: Now) {
    world.memory.answered[apnsID] = outcome
    if let mark = outcome.deadMark { world.memory.dead[device] = mark }
  }

  package mutating func tighten(_ job: borrowing PushJob, device: GateKey, now: Now) {}
}
