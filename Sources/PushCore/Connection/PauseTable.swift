/// What of one (credential, environment) is paused: all of it, or single topics; and what it takes to pause them.
///
/// Some answers pause at once, some only where they repeat: a topic after several refusals without an acceptance between,
/// the environment when most device tokens of a while were refused.
package struct PauseTable: Sendable {
  /// What an answer asks to stop.
  package enum Scope: Equatable, Sendable {
    case everything
    case topic
    case topicWhenRepeated
    /// A device token was refused: worth a pause where most are.
    case everythingWhenFrequent
  }

  private struct Topic: Sendable {
    var hash: UInt64
    var pause = PauseState()
    /// Refusals since the last acceptance.
    var refusals = 0
    var lastRefusedAt: Instant
  }

  /// Refusals in a row that pause a topic.
  package static let repetitions = 5
  /// Refusals that are further apart than this are no row.
  package static let repetitionMilliseconds: Int64 = 60_000
  /// How long refused device tokens are counted before counting begins anew.
  package static let shareMilliseconds: Int64 = 30_000
  /// So many refused ones, and more than half of all, are a jump.
  package static let shareMinimum = 50
  /// Topics that are watched at once; the one refused longest ago makes room.
  private static let topicsMaximum = 64

  private var whole = PauseState()
  private var topics: [Topic] = []
  private var shareSince: Instant?
  private var answers = 0
  private var refusedTokens = 0

  package init() {}

  /// Nothing is paused or suspected: the hot path asks no further.
  package var isQuiet: Bool { topics.isEmpty && whole.isRunning }

  /// Whether everything is paused, and how many topics are.
  package var pausedCounts: (everything: Bool, topics: Int) {
    (!whole.isRunning, topics.count { !$0.pause.isRunning })
  }

  /// Whether a job for this topic may go; a probe is counted as sent.
  package mutating func decide(topicHash: UInt64, now: Instant) -> PauseState.Decision {
    let decision = whole.decide(now: now)
    guard decision == .go, let index = index(of: topicHash) else { return decision }
    return topics[index].pause.decide(now: now)
  }

  /// The probe that `decide` allowed did not go out.
  package mutating func probeNotSent(topicHash: UInt64, now: Instant) {
    whole.probeNotSent(now: now)
    if let index = index(of: topicHash) { topics[index].pause.probeNotSent(now: now) }
  }

  /// An answer asked for a pause. true: this begins one (or another, after a probe): worth an alarm.
  package mutating func refused(_ scope: Scope, topicHash: UInt64, now: Instant) -> Bool {
    switch scope {
    case .everything:
      return whole.refused(now: now)
    case .topic:
      return topics[watch(topicHash, now: now)].pause.refused(now: now)
    case .topicWhenRepeated:
      let index = watch(topicHash, now: now)
      if now.milliseconds(since: topics[index].lastRefusedAt) > PauseTable.repetitionMilliseconds {
        topics[index].refusals = 0
      }
      topics[index].refusals += 1
      topics[index].lastRefusedAt = now
      let isProbe = !topics[index].pause.isRunning
      guard isProbe || topics[index].refusals >= PauseTable.repetitions else { return false }
      return topics[index].pause.refused(now: now)
    case .everythingWhenFrequent:
      refusedTokens += 1
      guard refusedTokens >= PauseTable.shareMinimum, refusedTokens * 2 > answers else { return false }
      answers = 0
      refusedTokens = 0
      return whole.refused(now: now)
    }
  }

  /// Any answer came. Counted for the share of refused tokens.
  package mutating func answered(now: Instant) {
    if let since = shareSince, now.milliseconds(since: since) < PauseTable.shareMilliseconds {
      answers += 1
    } else {
      shareSince = now
      answers = 1
      refusedTokens = 0
    }
  }

  /// A request for this topic was accepted. true: that ended a pause.
  package mutating func accepted(topicHash: UInt64) -> Bool {
    var isResumed = whole.accepted()
    if let index = index(of: topicHash) {
      if topics[index].pause.accepted() { isResumed = true }
      topics.swapRemove(at: index)
    }
    return isResumed
  }

  private func index(of hash: UInt64) -> Int? {
    topics.firstIndex { $0.hash == hash }
  }

  private mutating func watch(_ hash: UInt64, now: Instant) -> Int {
    if let index = index(of: hash) { return index }
    if topics.count >= PauseTable.topicsMaximum,
      let oldest = topics.indices.min(by: { topics[$0].lastRefusedAt < topics[$1].lastRefusedAt })
    {
      topics.swapRemove(at: oldest)
    }
    topics.append(Topic(hash: hash, lastRefusedAt: now))
    return topics.count - 1
  }
}

extension Array {
  /// Removes an element without moving all behind it: the last one takes its place.
  fileprivate mutating func swapRemove(at index: Int) {
    swapAt(index, count - 1)
    removeLast()
  }
}
