import Logging
package import PushCore
package import PushCredentials
package import PushIO
import PushSettings

/// APNs as a lane uses it: pools of HTTP/2 connections, provider tokens, pauses. One thread, one event loop.
///
/// `maintain` drains every connection into a queue of answers, so that received answers count before deadlines; `nextAnswer` empties the
/// queue. `apply` is about the last answer.
package final class APNsPushService: PushService {
  /// How long a paused job waits that would have been the probe, if a connection had had room.
  private static let probeWaitMilliseconds: Int64 = 1_000
  /// How long jobs of a revoked credential wait each time: only an operator helps them.
  private static let revokedWaitMilliseconds: Int64 = 15_000

  private var credentials: Credentials
  /// By `PoolIndex`; made when first used.
  private var pools: [APNsPool?]
  /// Pools of credentials that a reload removed, until their connections have ended.
  private var retired: [APNsPool] = []
  private var pauses: APNsPauses
  private var tokens: APNsTokens
  /// Names of revoked credentials.
  private var revoked: Set<String> = []
  private var context: APNsContext
  private var lastAnswer: APNsContext.Answered?
  private var isClosing = false
  private var broadcasts: BroadcastPolicies

  /// - Parameters:
  ///   - policies: what is known of broadcast channels; nil: nothing, and APNs judges.
  ///   - seed: for jitter, different in each lane.
  package init(
    loop: EventLoop, credentials: Credentials, configuration: APNsPushServiceConfiguration,
    policies: ChannelPolicyCache? = nil, seed: UInt64
  ) {
    self.credentials = credentials
    broadcasts = BroadcastPolicies(policies)
    context = APNsContext(loop: loop, configuration: configuration, seed: seed)
    let count = credentials.all.count
    pools = Array(repeating: nil, count: count * Credentials.environments * Credentials.poolKinds)
    pauses = APNsPauses(count: count * Credentials.environments, acceptances: configuration.acceptances)
    tokens = APNsTokens(credentials)
  }

  /// Applies reloaded credentials. Those that are unchanged, or whose key is related to the old one, keep their connections and pauses.
  /// Those whose key, certificate, apps or environments changed get new connections, and the old ones finish their requests. Connections of
  /// a removed credential end at once.
  /// - Parameter revoked: names that stay revoked, or come back revoked.
  package func replaceCredentials(_ newer: Credentials, revoked names: Set<String> = []) {
    let older = credentials
    credentials = newer
    revoked = names
    tokens.replace(newer)
    for (place, credential) in newer.all.enumerated() where credential.map({ names.contains($0.name) }) == true {
      tokens.revoke(place: place)
    }
    let count = newer.all.count
    while pools.count < count * Credentials.environments * Credentials.poolKinds { pools.append(nil) }
    pauses.grow(to: count * Credentials.environments)
    for place in older.all.indices {
      let credential = newer.all[place]
      let stays = older.all[place].flatMap { older in credential?.shares(connectionsOf: older) } ?? false
      for (offset, environment) in APNsEnvironment.allCases.enumerated() {
        if stays, credential?.configuration.environments.contains(environment) == true { continue }
        let scope = place * Credentials.environments + offset
        if credential == nil {
          revoke(scope: scope, because: "the credential is gone from the configuration")
        } else {
          retire(scope: scope)
        }
      }
    }
    tokens.look(credentials, now: context.loop.now, context: &context)
  }

  /// Ends the connections of a credential at once and opens no more while it is revoked. Requests in flight become ambiguous; the
  /// credential's jobs go to the retry queues. An unknown name changes nothing.
  package func revoke(credential name: String) {
    guard let place = credentials.all.firstIndex(where: { $0?.name == name }) else { return }
    revoked.insert(name)
    tokens.revoke(place: place)
    for offset in 0..<Credentials.environments {
      revoke(scope: place * Credentials.environments + offset, because: "the credential is revoked")
    }
  }

  /// Ends every connection at once, for a lane that stands still; new ones are opened when needed. Requests in flight become ambiguous.
  /// Pauses stay.
  package func restart() {
    for index in pools.indices {
      guard let pool = pools[index] else { continue }
      pool.revoke()
      retired.append(pool)
      pools[index] = nil
    }
  }

  private func revoke(scope: Int, because reason: String) {
    retire(scope: scope) { pool in
      context.say(pool.notice(.warning, "\(reason): its connections are closed"))
      pool.revoke()
    }
  }

  private func retire(scope: Int, _ end: (APNsPool) -> Void = { $0.close() }) {
    pauses.reset(scope)
    for index in scope * Credentials.poolKinds..<(scope + 1) * Credentials.poolKinds {
      guard let pool = pools[index] else { continue }
      end(pool)
      retired.append(pool)
      pools[index] = nil
    }
  }

  // MARK: - PushService

  package func route(for job: borrowing PushJob) throws(RoutingError) -> PoolIndex {
    try credentials.route(for: job)
  }

  package func maintain(now: Now) {
    tokens.look(credentials, now: now, context: &context)
    for index in pools.indices { pools[index]?.maintain(now: now, context: &context) }
    broadcasts.turn(now: now, goneChannels: &context.goneChannels)
    guard !retired.isEmpty else { return }
    for pool in retired {
      pool.maintain(now: now, context: &context)
      if pool.isEmpty { pool.recycle(&context) }
    }
    retired.removeAll { $0.isEmpty }
  }

  package func room(for pool: PoolIndex) -> Int {
    guard !isClosing, tokens.usesToken(Credentials.place(of: pool)) != nil, hasToken(for: pool) else { return 0 }
    return pools[Int(pool.value)]?.room ?? 0
  }

  package func send(
    _ job: borrowing PushJob, target: Int, apnsID: UUIDValue, pool: PoolIndex, ticket: Ticket, jobClass: JobClass,
    transactionalInFlight: Int?, now: Now
  ) -> SendDecision {
    let place = Credentials.place(of: pool)
    if isClosing { return .noRoom }
    guard let usesToken = tokens.usesToken(place) else {
      // A reload removed it: the job comes back soon, and is routed again.
      let isRevoked = credentials.all[place].map { revoked.contains($0.name) } ?? false
      return .paused(retryAfterMilliseconds: isRevoked ? APNsPushService.revokedWaitMilliseconds : 1)
    }
    if usesToken, tokens[place] == nil, !tokens.ask(place, credentials, now: now, context: &context) {
      return .noRoom
    }
    let scope = Int(pool.value) / Credentials.poolKinds
    let bytes = job.bytes.span
    var expiration: Int64 = 0
    if job.targetKind == .channel {
      switch broadcasts.decide(job, target: target, ticket: ticket, now: now) {
      case .send(let decided): expiration = decided
      case .hold: return .held
      case .wait: return .noRoom
      case .refuse(let error): return .refused(error)
      }
    }
    let topic = job.topic.isEmpty ? job.app : job.topic
    // What APNs answers to another app's jobs must not pause the topic for its own.
    let foreign =
      topic.count == job.app.count && job.hasTopicOfItsApp ? 0 : ByteHash.hash(bytes.extracting(job.app.range))
    let key = PauseKey(
      topicHash: ByteHash.hash(bytes.extracting(topic.range)) ^ foreign, jobClass: jobClass,
      isBroadcast: job.targetKind == .channel)
    let targetHash = ByteHash.hash(bytes.extracting(job.targets[target].range))
    if let wait = context.slowed.waitMilliseconds(targetHash, now: now.monotonic) {
      return .paused(retryAfterMilliseconds: wait)
    }
    var isProbe = false
    switch pauses.decide(key, scope: scope, now: now.monotonic) {
    case .go: break
    case .probe: isProbe = true
    case .stop(let wait): return .paused(retryAfterMilliseconds: wait)
    }
    var index = Int(pool.value)
    if job.targetKind != .channel, context.badTokens.contains(targetHash ^ key.topicBits) {
      index += Int(APNsPoolKind.badTokens.rawValue)
    }
    let chosen = self.pool(index)
    if job.targetKind == .channel { chosen.broadcastExpiration = expiration }
    let isSent = chosen.send(
      job, target: target, apnsID: apnsID, ticket: ticket, token: tokens[place],
      transactionalInFlight: transactionalInFlight, pauseKey: key, targetHash: targetHash, now: now, context: &context)
    if isSent { return .sent }
    guard isProbe else { return pools[index]?.isStalled == true ? .stalled : .noRoom }
    pauses.probeNotSent(key, scope: scope, now: now.monotonic)
    return .paused(retryAfterMilliseconds: APNsPushService.probeWaitMilliseconds)
  }

  package func nextReleased() -> Ticket? { broadcasts.nextReleased() }

  package func hasToken(for pool: PoolIndex) -> Bool { tokens.isReady(Credentials.place(of: pool)) }

  package func nextAnswer(now: Now) -> PushAnswer? {
    guard let answered = context.answers.popFirst() else {
      lastAnswer = nil
      return nil
    }
    lastAnswer = answered
    if answered.answer.kind == .response {
      let over = pauses.answered(
        answered, tokenSerial: tokens[answered.credentialPlace]?.serial ?? 0, now: now.monotonic)
      for label in over {
        say(answered.pool, (.info, "\(label.subject): accepted again: the pause is over"))
      }
    }
    return answered.answer
  }

  package func apply(_ verdict: Verdict, topic: String, pool: PoolIndex, now: Now) {
    guard let answered = lastAnswer else { preconditionFailure("a verdict is about an answer that was reported") }
    switch verdict.connection {
    case .keep: break
    case .fewerStreams:
      pools[answered.pool]?.advisedFewerStreams(place: answered.place, serial: answered.connectionSerial, now: now)
    case .close:
      pools[answered.pool]?.advisedToClose(place: answered.place, serial: answered.connectionSerial)
    }
    let isMended = applyToToken(verdict.token, answered, now)
    say(
      answered.pool,
      pauses.apply(
        isMended ? .none : verdict.pause, answered, topic: topic, now: now.monotonic, counters: &context.counters))
  }

  package func close() {
    isClosing = true
    for pool in pools { pool?.close() }
  }

  // MARK: - Besides the port

  /// Every connection has ended, after `close`.
  package var isClosed: Bool { pools.allSatisfy { $0?.isEmpty ?? true } && retired.isEmpty }

  /// Requests without an answer.
  package var inFlight: Int { context.requests.count }

  /// How far APNs' clock is ahead of ours, by its newest date; nil before the first.
  package var clockSkewSeconds: Int64? { context.clock.skewSeconds }

  package var counters: APNsCounters { context.counters }

  /// The next change for the log; nil once all are reported.
  package func takeNotice() -> APNsNotice? { context.takeNotice() }

  /// One for each pool that was used.
  package func poolSnapshots(now: Now) -> [APNsPoolSnapshot] {
    pools.compactMap { pool in
      pool.map { $0.snapshot(pauses: pauses[$0.index / Credentials.poolKinds], now: now) }
    }
  }

  package func activePauses(now: Now) -> [APNsPause] {
    var active: [APNsPause] = []
    for (place, credential) in credentials.all.enumerated() {
      guard let credential else { continue }
      for (offset, environment) in APNsEnvironment.allCases.enumerated() {
        for entry in pauses[place * Credentials.environments + offset].entries(now: now.monotonic) {
          active.append(
            APNsPause(
              credential: credential.name, environment: environment, label: entry.label,
              since: now.unixMilliseconds - entry.sinceMilliseconds, probeMilliseconds: entry.probeMilliseconds))
        }
      }
    }
    return active
  }

  // MARK: - Tokens

  /// Returns whether the next requests carry another token than the one that was refused.
  private func applyToToken(_ advice: Verdict.TokenAdvice, _ answered: APNsContext.Answered, _ now: Now) -> Bool {
    guard advice != .keep else { return false }
    let effect = tokens.apply(
      advice, place: answered.credentialPlace, serial: answered.tokenSerial, credentials, now: now, context: &context)
    switch effect {
    case .none: break
    case .held(let milliseconds):
      let text = "APNs says that the provider token was renewed too often (TooManyProviderTokenUpdates)"
      guard pauses.hold(answered, milliseconds: milliseconds, because: text, now: now.monotonic) else { break }
      context.counters.pauses += 1
      sayRenewedTooOften(answered, "its jobs wait in the retry queues until a probe is accepted")
    case .changed:
      if advice == .keepOlder { sayRenewedTooOften(answered, "the older one serves on, and none is made for 20 min") }
      return true
    case .replaced:
      return true
    case .clockDoubt(let ageSeconds):
      context.counters.clockSuspicions += 1
      let text =
        "APNs calls a provider token expired that is \(ageSeconds) s old by this machine's clock: check the clock (NTP)"
      say(
        answered.pool,
        pauses.pauseAll(answered, because: text, now: now.monotonic, counters: &context.counters))
    }
    return false
  }

  private func sayRenewedTooOften(_ answered: APNsContext.Answered, _ consequence: String) {
    say(
      answered.pool,
      (
        .warning,
        """
        APNs says that the provider token was renewed too often: another sender uses the same key, or this one was \
        restarted lately; \(consequence)
        """
      ))
  }

  /// Ends a credential's pauses in all its environments, nil: every credential's; topic nil: all of them.
  package func liftPauses(of name: String?, topic: String?) {
    for place in credentials.all.indices where name == nil || credentials.all[place]?.name == name {
      for scope in place * Credentials.environments..<(place + 1) * Credentials.environments {
        for label in pauses.lift(scope: scope, topic: topic) {
          guard
            let pool = pools[scope * Credentials.poolKinds..<(scope + 1) * Credentials.poolKinds].compactMap(\.self)
              .first
          else { continue }
          context.say(pool.notice(.notice, "\(label.subject): the pause is lifted by command"))
        }
      }
    }
  }

  // MARK: - Pools

  private func pool(_ index: Int) -> APNsPool {
    if let pool = pools[index] { return pool }
    let place = Credentials.place(of: PoolIndex(UInt16(index)))
    guard let credential = credentials.all[place] else { preconditionFailure("a pool belongs to a credential") }
    let environment = APNsEnvironment.allCases[index / Credentials.poolKinds % Credentials.environments]
    let kind = APNsPoolKind.allCases[index % Credentials.poolKinds]
    let pool = APNsPool(
      index: index, credential: credential, environment: environment, kind: kind, context: &context)
    pools[index] = pool
    return pool
  }

  private func say(_ pool: Int, _ remark: APNsRemark?) {
    guard let remark, let pool = pools[pool] else { return }
    context.say(pool.notice(remark.level, remark.text))
  }
}
