package import PushCore
package import PushCredentials
package import PushLane

/// APNs' state: which devices are gone, and its current faults. The auditor counts what it accepted.
package final class APNsServer {
  /// By token: when it died, Unix milliseconds.
  package var unregistered: [String: Int64] = [:]
  /// Answers take 7 to 9 seconds until then.
  package var slowUntil: Int64 = 0
  /// No stream is processed until then.
  package var refusesUntil: Int64 = 0
}

/// One lane's pools: one for each app.
package struct SimulatedAPNs: PushService {
  package let world: SimulatedWorld
  private var requests = RequestTable()
  private var pools: [SimulatedPool] = []
  /// Pools of credentials that a reload replaced, until their connections have ended.
  private var retired: [SimulatedPool] = []
  private var answers: [SimulatedPool.Answered] = []
  private var lastAnswer: SimulatedPool.Answered?

  package init(world: SimulatedWorld) {
    self.world = world
    makePools()
  }

  private mutating func makePools() {
    pools = []
    for index in SimulatedProducer.apps.indices {
      pools.append(SimulatedPool(world: world, index: index, requests: &requests))
    }
  }

  /// When the next event is due.
  package var nextDue: Int64 {
    let due = pools.reduce(Int64.max) { min($0, $1.nextDue) }
    return retired.reduce(due) { min($0, $1.nextDue) }
  }

  package func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    let app = text(job, job.app)
    return PoolIndex(UInt16(SimulatedProducer.apps.firstIndex(of: app) ?? 0))
  }

  package mutating func maintain(now: Now) {
    for index in pools.indices { pools[index].maintain(now: now, requests: &requests, answers: &answers) }
    for index in retired.indices {
      retired[index].maintain(now: now, requests: &requests, answers: &answers)
      if retired[index].isEmpty { retired[index].recycle(&requests) }
    }
    retired.removeAll { $0.isEmpty }
  }

  package func room(for pool: PoolIndex) -> Int { pools[Int(pool.value)].room }

  package mutating func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    if world.chance(5) { return .paused(retryAfterMilliseconds: 3000) }
    let target = Target(job: text(job, job.id), token: text(job, job.targets[target]))
    if world.poison.contains(target.job) {
      world.isDying = true
      return .sent
    }
    let registeredAt = job.tokenRegisteredAt
    let index = Int(pool.value)
    let judge = Judge(world: world)
    let world = world
    let isSent = pools[index].send(
      ticket, byteCount: Int(job.payload.count), transactionalInFlight: transactionalInFlight, now: now,
      requests: &requests
    ) { name in
      world.auditor.requested(target, apnsID, now: now.unixMilliseconds, at: world.milliseconds)
      return judge.fate(name, target, apnsID, registeredAt)
    }
    return isSent ? .sent : pools[index].isStalled ? .stalled : .noRoom
  }

  private func text(_ job: borrowing PushJob, _ range: ByteRange) -> String {
    String(decoding: job.bytes[range.range], as: UTF8.self)
  }

  package mutating func nextAnswer(now: Now) -> PushAnswer? {
    lastAnswer = answers.isEmpty ? nil : answers.removeFirst()
    return lastAnswer?.answer
  }

  package mutating func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {
    guard let lastAnswer else { return }
    pools[lastAnswer.pool].advise(verdict.connection, place: lastAnswer.place, now: now)
  }

  /// New credentials: new connections, and the old ones finish their requests.
  package mutating func reloadCredentials() {
    for index in pools.indices { pools[index].close() }
    retired += pools
    makePools()
  }

  package mutating func close() {
    for index in pools.indices { pools[index].close() }
  }
}

/// APNs' answer to a request.
private struct Judge {
  let world: SimulatedWorld

  /// The result of a request, decided when it arrives.
  func fate(
    _ name: Ticket, _ target: Target, _ apnsID: UUIDValue, _ registeredAt: Int64?
  ) -> SimulatedConnection.Fate {
    var fate = SimulatedConnection.Fate(target: target)
    let faults = world.faults
    let now = world.milliseconds
    if now < world.apns.refusesUntil || world.chance(faults.notProcessed) {
      fate.answer = (now + Int64(world.pick(50)), PushAnswer(ticket: name, kind: .notProcessed))
      return fate
    }
    if world.chance(faults.lostBeforeProcessing) {
      if world.chance(500) { fate.answer = (now + Int64(world.pick(200)), PushAnswer(ticket: name, kind: .lost)) }
      return fate
    }
    var answer = answer(name, target, registeredAt)
    if answer.status == 200 {
      fate.isAccepted = true
      world.auditor.apnsAccepted(target, apnsID)
    }
    if world.chance(faults.streamSilent) { return fate }
    if fate.isAccepted, world.chance(faults.lostAfterProcessing) {
      if world.chance(500) { return fate }
      answer = PushAnswer(ticket: name, kind: .lost)
    }
    var delay = Int64(now < world.apns.slowUntil ? 7000 + world.pick(2000) : world.pick(200))
    if world.chance(faults.answeredLate) { delay = world.settings.timeoutMilliseconds + Int64(world.pick(4000)) }
    fate.answer = (now + delay, answer)
    return fate
  }

  private func answer(_ name: Ticket, _ target: Target, _ registeredAt: Int64?) -> PushAnswer {
    let faults = world.faults
    var answer = PushAnswer(ticket: name, kind: .response)
    if world.chance(faults.serverError) {
      answer.status = 503
      answer.reason = .serviceUnavailable
    } else if world.chance(faults.tooManyRequests) {
      answer.status = 429
      answer.reason = .tooManyRequests
    } else if world.chance(faults.rejected) || isOfCampaign(target) && world.chance(faults.campaignRejected) {
      answer.status = 400
      answer.reason = .badDeviceToken
    } else if let since = unregisteredSince(target, registeredAt) {
      answer.status = 410
      answer.reason = .unregistered
      answer.unregisteredAt = since
      world.auditor.apnsUnregistered(target, since: since)
    } else {
      answer.status = 200
    }
    return answer
  }

  private func isOfCampaign(_ target: Target) -> Bool { target.token.hasPrefix(SimulatedProducer.campaignPrefix) }

  /// When its device died; nil: it is registered.
  private func unregisteredSince(_ target: Target, _ registeredAt: Int64?) -> Int64? {
    if let registeredAt, world.chance(world.faults.unregisteredBefore) {
      return registeredAt - 1 - Int64(world.pick(1_000_000))
    }
    if let since = world.apns.unregistered[target.token] {
      guard let registeredAt, registeredAt > since else { return since }
      world.apns.unregistered[target.token] = nil
    }
    guard world.chance(world.faults.unregistered) else { return nil }
    let since = world.milliseconds
    world.apns.unregistered[target.token] = since
    return since
  }
}
