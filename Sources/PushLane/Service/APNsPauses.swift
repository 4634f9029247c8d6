import Logging
import PushCore
import PushCredentials

/// The pauses of all (credential, environment)s of a lane: what answers require, and what operators are told about it.
struct APNsPauses {
  /// By (credential, environment).
  private var tables: [PauseTable]
  private var acceptances: AcceptanceNotes

  init(count: Int, acceptances: AcceptanceTimes) {
    tables = Array(repeating: PauseTable(), count: count)
    self.acceptances = AcceptanceNotes(times: acceptances)
  }

  /// Makes room for at least this many.
  mutating func grow(to count: Int) {
    while tables.count < count { tables.append(PauseTable()) }
  }

  /// Ends all pauses.
  mutating func reset(_ scope: Int) { tables[scope] = PauseTable() }

  subscript(scope: Int) -> PauseTable { tables[scope] }

  /// Whether such a request may be sent; a probe counts as sent.
  mutating func decide(_ key: PauseKey, scope: Int, now: Instant) -> PauseState.Decision {
    tables[scope].isQuiet ? .go : tables[scope].decide(key, now: now)
  }

  /// The probe that `decide` allowed was not sent.
  mutating func probeNotSent(_ key: PauseKey, scope: Int, now: Instant) {
    tables[scope].probeNotSent(key, now: now)
  }

  /// APNs answered. Returns the pauses that are over.
  mutating func answered(
    _ answered: APNsContext.Answered, tokenSerial: @autoclosure () -> UInt32, now: Instant
  ) -> [PauseTable.Label] {
    let scope = answered.scope
    if answered.answer.status == 200 { acceptances.accepted(answered.pauseKey, scope: scope, now: now) }
    guard !tables[scope].isQuiet else { return [] }
    return tables[scope].answered(answered.pauseKey, proving: proof(answered, tokenSerial: tokenSerial()))
  }

  /// What an answer proves to be in order.
  private func proof(_ answered: APNsContext.Answered, tokenSerial: UInt32) -> PauseTable.Proof {
    switch answered.answer.status {
    case 200: answered.tokenSerial == tokenSerial ? [.credential, .topic, .environment] : [.topic, .environment]
    case 410: .environment
    default: []
    }
  }

  /// Ends pauses by command; topic nil: all of the scope.
  mutating func lift(scope: Int, topic: String?) -> [PauseTable.Label] { tables[scope].lift(topic: topic) }

  /// Everything of the credential in this environment waits for probes, and at most this long for one. true: this is new.
  mutating func hold(_ answered: APNsContext.Answered, milliseconds: Int64, because text: String, now: Instant) -> Bool
  {
    guard tables[answered.scope].hold(milliseconds: milliseconds, now: now) else { return false }
    tables[answered.scope].name(.everything, answered.pauseKey, PauseTable.Label(reason: text))
    return true
  }

  /// Everything of the credential in this environment is paused; nil: it was paused before.
  mutating func pauseAll(
    _ answered: APNsContext.Answered, because text: String, now: Instant, counters: inout APNsCounters
  ) -> APNsRemark? {
    pause(.everything, answered, now, &counters, PauseTable.Label(reason: text))
  }

  /// Applies a verdict. nil: nothing new.
  /// - Parameter topic: of the refused job.
  mutating func apply(
    _ pause: Verdict.Pause, _ answered: APNsContext.Answered, topic: String, now: Instant, counters: inout APNsCounters
  ) -> APNsRemark? {
    let reason = answered.answer.reason?.name ?? "\(answered.answer.status)"
    let key = answered.pauseKey
    switch pause {
    case .none, .channelCreation:
      return nil
    case .credential:
      let label = PauseTable.Label(reason: "APNs refuses the credential (\(reason))")
      let first = answered.scope / Credentials.environments * Credentials.environments
      for other in first..<first + Credentials.environments where other != answered.scope {
        if tables[other].refused(.everything, answered.pauseKey, now: now) == .paused {
          tables[other].name(.everything, answered.pauseKey, label)
        }
      }
      return self.pause(.everything, answered, now, &counters, label)
    case .credentialInEnvironment:
      return self.pause(
        .everything, answered, now, &counters, .init(reason: "the key is not for this environment (\(reason))"))
    case .credentialForApp:
      return self.pause(
        .topic, answered, now, &counters,
        .init(topic: topic, reason: "the credential may not send to this app (\(reason))"))
    case .topicWhenRepeated, .credentialWhenRepeated:
      return self.pause(
        .topicWhenRepeated, answered, now, &counters,
        .init(topic: topic, reason: "it was refused again and again (\(reason))"))
    case .topicAndClassWhenNoneAccepted:
      return self.pause(
        .branchWhenNoneAccepted, answered, now, &counters,
        .init(
          topic: topic, branch: "\(key.branchName)",
          reason: """
            of the last \(PauseTable.window) none was accepted (\(reason)): their device tokens are of the other \
            environment
            """))
    case .broadcastsOfApp:
      return self.pause(
        .branch, answered, now, &counters,
        .init(topic: topic, branch: "\(key.branchName)", reason: "enable broadcasts for its bundle id (\(reason))"))
    }
  }

  private mutating func pause(
    _ scope: PauseTable.Scope, _ answered: APNsContext.Answered, _ now: Instant, _ counters: inout APNsCounters,
    _ label: @autoclosure () -> PauseTable.Label
  ) -> APNsRemark? {
    let key = answered.pauseKey
    let elsewhere = scope == .branchWhenNoneAccepted ? acceptances.last(key, scope: answered.scope) : nil
    switch tables[answered.scope].refused(scope, key, acceptedElsewhere: elsewhere, now: now) {
    case .none:
      return nil
    case .paused:
      counters.pauses += 1
      let label = label()
      tables[answered.scope].name(scope, key, label)
      return (.error, "\(label.subject): paused: \(label.reason); jobs wait in the retry queues")
    case .warned:
      counters.badDeviceTokenWarnings += 1
      return (
        .warning,
        """
        of the last \(PauseTable.window) \(label().subject) at least \(PauseTable.warningMinimum) had device tokens that \
        APNs refuses (BadDeviceToken), others were accepted; nothing is paused: does the producer mix environments?
        """
      )
    }
  }
}
