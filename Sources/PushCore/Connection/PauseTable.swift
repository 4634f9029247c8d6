/// What pauses distinguish requests by: the topic, and its branch: broadcasts, or one class of pushes to devices.
package struct PauseKey: Hashable, Sendable {
  /// The topic's hash. Its lowest two bits hold the branch; 0 is the topic itself.
  package let bits: UInt64

  package init(topicHash: UInt64, jobClass: JobClass, isBroadcast: Bool) {
    bits = topicHash & ~3 | (isBroadcast ? 3 : UInt64(jobClass.rawValue) + 1)
  }

  /// Without the branch.
  package var topicBits: UInt64 { bits & ~3 }

  /// The branch in words.
  package var branchName: StaticString {
    switch bits & 3 {
    case 1: "transactional pushes"
    case 2: "bulk pushes"
    default: "broadcasts"
    }
  }
}

/// What is paused of one (credential, environment): everything, single topics, or branches of topics.
///
/// Some answers pause at once, others only when they repeat. A topic pauses after several refusals without an acceptance between them. A
/// topic and class pause when a device token is refused and none of the last 200 answers was an acceptance, because then the environment is
/// certainly wrong. If good and bad device tokens are mixed, nothing is paused; there is one warning.
package struct PauseTable: Sendable {
  /// What an answer asks to stop.
  package enum Scope: Equatable, Sendable {
    case everything
    case topic
    case topicWhenRepeated
    case branch
    /// A device token was refused: pauses topic and class if none is accepted.
    case branchWhenNoneAccepted
  }

  /// The effect of a refusal.
  package enum Effect: Equatable, Sendable {
    case none
    /// A pause began, or another one after a probe: raise an alarm.
    case paused
    /// Many device tokens are refused while others are accepted: warn.
    case warned
  }

  /// What a pause is about, for people.
  package struct Label: Hashable, Sendable {
    /// Empty: the whole credential.
    package let topic: String
    /// `transactional pushes`, `bulk pushes` or `broadcasts`; empty: all of them.
    package let branch: String
    /// What APNs said, and what that means.
    package let reason: String

    package init(topic: String = "", branch: String = "", reason: String) {
      self.topic = topic
      self.branch = branch
      self.reason = reason
    }

    /// `transactional`, `bulk` or `broadcasts`; nil: all of them.
    package var branchWord: String? { branch.split(separator: " ").first.map(String.init) }

    package var subject: String {
      if topic.isEmpty { return "the credential" }
      return branch.isEmpty ? "the topic \(topic)" : "\(branch) of the topic \(topic)"
    }
  }

  /// One pause.
  package struct Entry: Hashable, Sendable {
    package let label: Label
    package let sinceMilliseconds: Int64
    /// Until its next probe may go out; 0: one may, or did.
    package let probeMilliseconds: Int64

    package init(label: Label, sinceMilliseconds: Int64, probeMilliseconds: Int64) {
      self.label = label
      self.sinceMilliseconds = sinceMilliseconds
      self.probeMilliseconds = probeMilliseconds
    }
  }

  /// What an answer proves to be in order.
  package struct Proof: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Accepted, with the current provider token.
    package static let credential = Proof(rawValue: 1)
    /// Accepted.
    package static let topic = Proof(rawValue: 2)
    /// APNs knows the device token, or knew it: the environment is right.
    package static let environment = Proof(rawValue: 4)
  }

  /// A topic or a branch of it.
  private struct Watch: Sendable {
    var bits: UInt64
    var pause: PauseState
    /// Told once it is paused.
    var label = Label(reason: "")
    /// Refusals since the last acceptance.
    var refusals = 0
    /// Answers since the last one that proved the environment.
    var unproven = 0
    /// Answers in the current block, and the refused device tokens among them.
    var answers = 0
    var refusedTokens = 0
    var isWarned = false
    /// When the first answer counted in `unproven` came.
    var unprovenSince: Instant
    var lastRefusedAt: Instant

    init(bits: UInt64, lastRefusedAt: Instant) {
      self.bits = bits
      // A device's token is refused for its own reasons: one that is wrong says little of the others.
      pause = PauseState(probes: bits & 3 == 0 ? 1 : PauseState.severalProbes)
      self.lastRefusedAt = lastRefusedAt
      unprovenSince = lastRefusedAt
    }

    mutating func beginBlock() {
      if refusedTokens * 2 < PauseTable.warningMinimum { isWarned = false }
      answers = 0
      refusedTokens = 0
    }

    mutating func tokenRefused(acceptedElsewhere: Instant?, now: Instant) -> Effect {
      if answers == 0 {
        // The answer that starts the block.
        answers = 1
        unproven = 1
      }
      if unproven == 1 { unprovenSince = now }
      if let acceptedElsewhere, acceptedElsewhere >= unprovenSince {
        unproven = 0
        _ = pause.accepted()
      }
      refusedTokens += 1
      if !pause.isRunning || unproven >= PauseTable.window { return pause.refused(now: now) ? .paused : .none }
      guard !isWarned, refusedTokens >= PauseTable.warningMinimum, unproven < answers else { return .none }
      isWarned = true
      return .warned
    }
  }

  /// Refusals in a row that pause a topic.
  package static let repetitions = 5
  /// Refusals further apart than this do not count as a row.
  package static let repetitionMilliseconds: Int64 = 60_000
  /// This many answers without an acceptance pause a topic and class. It is also the size of the blocks in which refused device tokens are
  /// counted.
  package static let window = 200
  /// A block with this many refused device tokens causes a warning; one with less than half of it ends the warning.
  package static let warningMinimum = 40
  /// Maximum of watched topics and branches; the one refused longest ago is evicted.
  package static let watchesMaximum = 128

  private var whole = PauseState()
  private var wholeLabel = Label(reason: "")
  private var watches: [Watch] = []

  package init() {}

  /// Nothing is paused or watched: the hot path stops here.
  package var isQuiet: Bool { watches.isEmpty && whole.isRunning }

  /// Whether everything is paused, and how many topics and branches are.
  package var pausedCounts: (everything: Bool, topics: Int) {
    (!whole.isRunning, watches.count { !$0.pause.isRunning })
  }

  /// Everything that is paused.
  package func entries(now: Instant) -> [Entry] {
    if isQuiet { return [] }
    return ([(whole, wholeLabel)] + watches.map { ($0.pause, $0.label) }).compactMap { pause, label in
      guard let since = pause.since, let probe = pause.probeMilliseconds(now: now) else { return nil }
      return Entry(label: label, sinceMilliseconds: now.milliseconds(since: since), probeMilliseconds: probe)
    }
  }

  /// Says what this pause is about, once it has begun or was renewed.
  package mutating func name(_ scope: Scope, _ key: PauseKey, _ label: Label) {
    switch scope {
    case .everything: wholeLabel = label
    case .topic, .topicWhenRepeated: if let index = index(of: key.topicBits) { watches[index].label = label }
    case .branch, .branchWhenNoneAccepted: if let index = index(of: key.bits) { watches[index].label = label }
    }
  }

  /// Ends pauses by command, and forgets the refusals that led to them.
  /// - Parameter topic: those of this one alone; nil: all.
  /// - Returns: what was paused.
  package mutating func lift(topic: String?) -> [Label] {
    var lifted: [Label] = []
    if topic == nil, whole.accepted() { lifted.append(wholeLabel) }
    watches.removeAll { watch in
      guard !watch.pause.isRunning, topic == nil || topic == watch.label.topic else { return false }
      lifted.append(watch.label)
      return true
    }
    return lifted
  }

  /// Whether such a job may be sent; a probe counts as sent.
  package mutating func decide(_ key: PauseKey, now: Instant) -> PauseState.Decision {
    var decision = whole.decide(now: now)
    if case .stop = decision { return decision }
    let isProbeOfAll = decision == .probe
    var isProbeOfTopic = false
    let topic = index(of: key.topicBits)
    if let topic {
      switch watches[topic].pause.decide(now: now) {
      case .go: break
      case .probe:
        decision = .probe
        isProbeOfTopic = true
      case .stop(let milliseconds):
        if isProbeOfAll { whole.probeNotSent(now: now) }
        return .stop(milliseconds: milliseconds)
      }
    }
    guard let branch = index(of: key.bits) else { return decision }
    switch watches[branch].pause.decide(now: now) {
    case .go: return decision
    case .probe: return .probe
    case .stop(let milliseconds):
      if isProbeOfAll { whole.probeNotSent(now: now) }
      if isProbeOfTopic, let topic { watches[topic].pause.probeNotSent(now: now) }
      return .stop(milliseconds: milliseconds)
    }
  }

  /// The probe that `decide` allowed was not sent.
  package mutating func probeNotSent(_ key: PauseKey, now: Instant) {
    whole.probeNotSent(now: now)
    if let index = index(of: key.topicBits) { watches[index].pause.probeNotSent(now: now) }
    if let index = index(of: key.bits) { watches[index].pause.probeNotSent(now: now) }
  }

  /// An answer came; call this before `refused`. Returns the pauses that it ended.
  package mutating func answered(_ key: PauseKey, proving proof: Proof) -> [Label] {
    var resumed: [Label] = []
    if proof.contains(.credential), whole.accepted() { resumed.append(wholeLabel) }
    if proof.contains(.topic), let index = index(of: key.topicBits) {
      if watches[index].pause.accepted() { resumed.append(watches[index].label) }
      watches.swapRemove(at: index)
    }
    guard let index = index(of: key.bits) else { return resumed }
    if watches[index].answers == PauseTable.window { watches[index].beginBlock() }
    watches[index].answers += 1
    guard proof.contains(.environment) else {
      watches[index].unproven += 1
      return resumed
    }
    watches[index].unproven = 0
    if watches[index].pause.accepted() { resumed.append(watches[index].label) }
    if watches[index].refusedTokens == 0, !watches[index].isWarned { watches.swapRemove(at: index) }
    return resumed
  }

  /// An answer asked for a pause.
  /// - Parameter acceptedElsewhere: when another table of the same credential and environment last saw an acceptance for this topic and
  ///   class.
  package mutating func refused(
    _ scope: Scope, _ key: PauseKey, acceptedElsewhere: Instant? = nil, now: Instant
  ) -> Effect {
    switch scope {
    case .everything:
      return whole.refused(now: now) ? .paused : .none
    case .topic:
      return watches[watch(key.topicBits, now: now)].pause.refused(now: now) ? .paused : .none
    case .branch:
      return watches[watch(key.bits, now: now)].pause.refused(now: now) ? .paused : .none
    case .topicWhenRepeated:
      let index = watch(key.topicBits, now: now)
      if now.milliseconds(since: watches[index].lastRefusedAt) > PauseTable.repetitionMilliseconds {
        watches[index].refusals = 0
      }
      watches[index].refusals += 1
      watches[index].lastRefusedAt = now
      let isProbe = !watches[index].pause.isRunning
      guard isProbe || watches[index].refusals >= PauseTable.repetitions else { return .none }
      return watches[index].pause.refused(now: now) ? .paused : .none
    case .branchWhenNoneAccepted:
      let index = watch(key.bits, now: now)
      watches[index].lastRefusedAt = now
      return watches[index].tokenRefused(acceptedElsewhere: acceptedElsewhere, now: now)
    }
  }

  /// Everything waits for probes, and at most this long for one. true: raise an alarm.
  package mutating func hold(milliseconds: Int64, now: Instant) -> Bool {
    whole.hold(milliseconds: milliseconds, now: now)
  }

  private func index(of bits: UInt64) -> Int? {
    watches.firstIndex { $0.bits == bits }
  }

  private mutating func watch(_ bits: UInt64, now: Instant) -> Int {
    if let index = index(of: bits) { return index }
    if watches.count >= PauseTable.watchesMaximum {
      // Prefer to evict one that pauses nothing.
      let oldest = watches.indices.min { one, other in
        let (one, other) = (watches[one], watches[other])
        guard one.pause.isRunning == other.pause.isRunning else { return one.pause.isRunning }
        return one.lastRefusedAt < other.lastRefusedAt
      }
      if let oldest { watches.swapRemove(at: oldest) }
    }
    watches.append(Watch(bits: bits, lastRefusedAt: now))
    return watches.count - 1
  }
}

extension Array {
  /// Removes an element in constant time: the last one takes its place.
  fileprivate mutating func swapRemove(at index: Int) {
    swapAt(index, count - 1)
    removeLast()
  }
}
