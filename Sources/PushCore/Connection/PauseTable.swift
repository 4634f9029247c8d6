/// What a request is for, as far as pauses tell requests apart: its topic, and which branch of the topic: its broadcasts, or
/// one class of its pushes to devices.
package struct PauseKey: Hashable, Sendable {
  /// The topic's hash, its lowest two bits replaced by the branch; 0 there is the topic itself.
  package let bits: UInt64

  package init(topicHash: UInt64, jobClass: JobClass, isBroadcast: Bool) {
    bits = topicHash & ~3 | (isBroadcast ? 3 : UInt64(jobClass.rawValue) + 1)
  }

  var topicBits: UInt64 { bits & ~3 }

  /// The branch, for people.
  package var branchName: StaticString {
    switch bits & 3 {
    case 1: "transactional pushes"
    case 2: "bulk pushes"
    default: "broadcasts"
    }
  }
}

/// What of one (credential, environment) is paused: all of it, single topics, or branches of them; and what it takes to
/// pause them.
///
/// Some answers pause at once, some only where they repeat: a topic after several refusals without an acceptance between;
/// a topic and class after 200 answers of which none was accepted, when a device token is refused, because then the
/// environment is surely wrong. Where good and bad device tokens are mixed nothing is paused: that is said, once.
package struct PauseTable: Sendable {
  /// What an answer asks to stop.
  package enum Scope: Equatable, Sendable {
    case everything
    case topic
    case topicWhenRepeated
    case branch
    /// A device token was refused: worth a pause of topic and class where none is accepted.
    case branchWhenNoneAccepted
  }

  /// What a refusal brought about.
  package enum Effect: Equatable, Sendable {
    case none
    /// A pause begins, or another after a probe: worth an alarm.
    case paused
    /// Many device tokens are refused among others that are not: worth a warning.
    case warned
  }

  /// What an answer shows to be in order.
  package struct Proof: OptionSet, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// Accepted, with the provider token that serves now.
    package static let credential = Proof(rawValue: 1)
    /// Accepted.
    package static let topic = Proof(rawValue: 2)
    /// APNs knows the device token, or knew it: it is of this environment.
    package static let environment = Proof(rawValue: 4)
  }

  /// A topic or a branch of it.
  private struct Watch: Sendable {
    var bits: UInt64
    var pause = PauseState()
    /// Refusals since the last acceptance.
    var refusals = 0
    /// Answers since the last one that proved the environment.
    var unproven = 0
    /// Answers of the block that is being counted, and the refused device tokens among them.
    var answers = 0
    var refusedTokens = 0
    var isWarned = false
    /// When the answers began that `unproven` counts.
    var unprovenSince: Instant
    var lastRefusedAt: Instant

    init(bits: UInt64, lastRefusedAt: Instant) {
      self.bits = bits
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
        // The answer that it begins with.
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
  /// Refusals that are further apart than this are no row.
  package static let repetitionMilliseconds: Int64 = 60_000
  /// So many answers without an acceptance pause a topic and class; refused device tokens are counted in blocks of so many.
  package static let window = 200
  /// A block with so many refused device tokens is warned of; one with less than half as many ends the matter.
  package static let warningMinimum = 40
  /// Topics and branches that are watched at once; the one refused longest ago makes room.
  package static let watchesMaximum = 128

  private var whole = PauseState()
  private var watches: [Watch] = []

  package init() {}

  /// Nothing is paused or watched: the hot path asks no further.
  package var isQuiet: Bool { watches.isEmpty && whole.isRunning }

  /// Whether everything is paused, and how many topics and branches are.
  package var pausedCounts: (everything: Bool, topics: Int) {
    (!whole.isRunning, watches.count { !$0.pause.isRunning })
  }

  /// Whether such a job may go; a probe is counted as sent.
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

  /// The probe that `decide` allowed did not go out.
  package mutating func probeNotSent(_ key: PauseKey, now: Instant) {
    whole.probeNotSent(now: now)
    if let index = index(of: key.topicBits) { watches[index].pause.probeNotSent(now: now) }
    if let index = index(of: key.bits) { watches[index].pause.probeNotSent(now: now) }
  }

  /// An answer came, before what it asks for. true: it ended a pause.
  package mutating func answered(_ key: PauseKey, proving proof: Proof) -> Bool {
    var isResumed = false
    if proof.contains(.credential), whole.accepted() { isResumed = true }
    if proof.contains(.topic), let index = index(of: key.topicBits) {
      if watches[index].pause.accepted() { isResumed = true }
      watches.swapRemove(at: index)
    }
    guard let index = index(of: key.bits) else { return isResumed }
    if watches[index].answers == PauseTable.window { watches[index].beginBlock() }
    watches[index].answers += 1
    guard proof.contains(.environment) else {
      watches[index].unproven += 1
      return isResumed
    }
    watches[index].unproven = 0
    if watches[index].pause.accepted() { isResumed = true }
    if watches[index].refusedTokens == 0, !watches[index].isWarned { watches.swapRemove(at: index) }
    return isResumed
  }

  /// An answer asked for a pause.
  /// - Parameter acceptedElsewhere: when another table of the same credential and environment saw one accepted of this topic and class.
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

  /// Everything waits until a time that is known, then for a probe. true: worth an alarm.
  package mutating func hold(milliseconds: Int64, now: Instant) -> Bool {
    whole.hold(milliseconds: milliseconds, now: now)
  }

  private func index(of bits: UInt64) -> Int? {
    watches.firstIndex { $0.bits == bits }
  }

  private mutating func watch(_ bits: UInt64, now: Instant) -> Int {
    if let index = index(of: bits) { return index }
    if watches.count >= PauseTable.watchesMaximum {
      // Rather one that pauses nothing.
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
  /// Removes an element without moving all behind it: the last one takes its place.
  fileprivate mutating func swapRemove(at index: Int) {
    swapAt(index, count - 1)
    removeLast()
  }
}
