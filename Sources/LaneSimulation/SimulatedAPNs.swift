package import PushCore
package import PushWorker

/// What APNs keeps: nothing but which tokens are gone. The auditor counts what it accepted.
package final class APNsServer {
  package var unregistered: [String: Int64] = [:]
}

/// One lane's pools.
package struct SimulatedAPNs: PushService {
  package let world: SimulatedWorld
  private let streams = 12
  private var answers: [(at: Int64, answer: PushAnswer)] = []

  package init(world: SimulatedWorld) {
    self.world = world
  }

  package func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    PoolIndex(0)
  }

  package mutating func maintain(now: Now) {}

  package mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    now: Now
  ) -> SendDecision {
    guard answers.count < streams else { return .noRoom }
    if world.chance(5) { return .paused(retryAfterMilliseconds: 3000) }
    let target = Target(job: text(job, job.id), token: text(job, job.targets[target]))
    if world.poison.contains(target.job) {
      world.isDying = true
      return .sent
    }
    answers.append((world.milliseconds + Int64(world.pick(200)), answer(ticket, target, now)))
    return .sent
  }

  private func text(_ job: borrowing PushJob, _ range: ByteRange) -> String {
    String(decoding: job.bytes[range.range], as: UTF8.self)
  }

  private func answer(_ ticket: Ticket, _ target: Target, _ now: Now) -> PushAnswer {
    let faults = world.faults
    if world.chance(faults.notProcessed) { return PushAnswer(ticket: ticket, kind: .notProcessed) }
    if world.chance(faults.lostBeforeProcessing) { return PushAnswer(ticket: ticket, kind: .lost) }
    var answer = PushAnswer(ticket: ticket, kind: .response)
    if world.chance(faults.serverError) {
      answer.status = 503
      answer.reason = .serviceUnavailable
      return answer
    }
    if world.chance(faults.rejected) {
      answer.status = 400
      answer.reason = .badDeviceToken
      return answer
    }
    if world.apns.unregistered[target.token] != nil || world.chance(faults.unregistered) {
      answer.status = 410
      answer.reason = .unregistered
      answer.unregisteredAt = world.apns.unregistered[target.token] ?? now.unixMilliseconds
      world.apns.unregistered[target.token] = answer.unregisteredAt
      return answer
    }
    world.auditor.apnsAccepted(target)
    if world.chance(faults.lostAfterProcessing) {
      world.auditor.excuse(target)
      return PushAnswer(ticket: ticket, kind: world.chance(500) ? .lost : .timedOut)
    }
    answer.status = 200
    return answer
  }

  package mutating func nextAnswer(now: Now) -> PushAnswer? {
    guard let index = answers.firstIndex(where: { $0.at <= world.milliseconds }) else { return nil }
    return answers.remove(at: index).answer
  }

  package mutating func apply(_ verdict: Verdict, pool: PoolIndex, now: Now) {}

  package mutating func close() {}
}
