/// Whether a destination takes what is published to it, as the broker answers.
///
/// A queue that refuses is not tried with everything again and again: the other queues of its exchange would get each message each time. While
/// it refuses, one message probes it, after longer and longer waits; once one is taken, more and more follow, as its answers allow.
///
/// RabbitMQ goes on refusing on a channel that it once told that a queue is full, or that was opened while a queue had no leader: after a
/// second of refusals each probe takes a fresh channel, and now and then a fresh connection.
package struct DestinationState: Sendable {
  /// How the next message may be published.
  package enum Way: Equatable, Sendable {
    case now
    /// The publisher shall move to a fresh channel, or to a fresh connection, and ask again.
    case onFreshChannel, onFreshConnection
    case later
  }

  private static let delayMilliseconds: Int64 = 100
  static let delayMaximumMilliseconds: Int64 = 5_000
  /// Refusals for so long: the channel may be what refuses.
  private static let channelMilliseconds: Int64 = 1_000
  /// How long a fresh channel has to open before it is probed.
  private static let openingMilliseconds: Int64 = 100
  /// So many fresh channels refused: the connection may be what refuses.
  private static let channelsMaximum = 3
  /// An answer that did not come for so long is lost.
  private static let answerMilliseconds: Int64 = 5_000
  /// With so many unconfirmed at once it takes everything.
  private static let windowMaximum = 256
  /// Without a refusal for so long it no longer counts as refusing.
  private static let calmMilliseconds: Int64 = 10_000

  /// Since when it refuses, again and again or always; nil: it does not.
  package private(set) var refusingSince: Instant?
  private var unconfirmed = 0
  /// How many may be unconfirmed; 0: it refused, and is probed; nil: all.
  private var window: Int?
  private var isProbing = false
  /// It refuses for so long that people should know.
  package private(set) var isNoted = false
  /// When something was last published to it.
  package private(set) var publishedAt = Instant(nanoseconds: .min)
  private var delayMilliseconds = DestinationState.delayMilliseconds
  private var nextProbe = Instant(nanoseconds: .min)
  /// When it began to refuse everything, and when it last refused or took something.
  private var (stoppedAt, refusedAt, takenAt) = (
    Instant(nanoseconds: .min), Instant(nanoseconds: .min), Instant(nanoseconds: .min)
  )
  /// Fresh channels since then.
  private var channels = 0
  private var hasFreshChannel = false
  /// Another took something since it last refused (`tryAgain`).
  private var isDue = false

  package init() {}

  /// It has refused for long: as seldom as it is tried now, it may wait for others (`RefusalTurns`).
  package var isTriedSeldom: Bool {
    window == 0 && delayMilliseconds == DestinationState.delayMaximumMilliseconds && !isDue
  }

  package mutating func way(now: Instant) -> Way {
    missAnswers(now: now)
    guard let window else { return .now }
    guard window == 0 else { return unconfirmed < window ? .now : .later }
    guard !isProbing, now >= nextProbe else { return .later }
    guard !hasFreshChannel, now.milliseconds(since: stoppedAt) >= DestinationState.channelMilliseconds else {
      return .now
    }
    hasFreshChannel = true
    nextProbe = now.adding(milliseconds: DestinationState.openingMilliseconds)
    channels += 1
    return channels % (DestinationState.channelsMaximum + 1) == 0 ? .onFreshConnection : .onFreshChannel
  }

  private mutating func missAnswers(now: Instant) {
    guard let window, isProbing || window > 0 && unconfirmed >= window,
      now.milliseconds(since: publishedAt) >= DestinationState.answerMilliseconds
    else { return }
    self.window = 0
    lost()
  }

  package mutating func published(now: Instant) {
    publishedAt = now
    unconfirmed += 1
    if window == 0 { isProbing = true }
  }

  /// true: it refused, and took its probe.
  @discardableResult
  package mutating func confirmed(now: Instant) -> Bool {
    unconfirmed = max(0, unconfirmed - 1)
    guard let window, isProbing || window > 0 else { return false }
    isProbing = false
    takenAt = now
    delayMilliseconds = max(DestinationState.delayMilliseconds, delayMilliseconds / 2)
    self.window = window >= DestinationState.windowMaximum ? nil : window + 2
    return window == 0
  }

  /// What was published to it was refused, and counts for another state.
  package mutating func answeredElsewhere() { unconfirmed = max(0, unconfirmed - 1) }

  /// Another one that refused took something: it may, too. Not more often than it is tried without that.
  package mutating func tryAgain(now: Instant) {
    guard window == 0, now.milliseconds(since: refusedAt) >= DestinationState.delayMaximumMilliseconds else { return }
    isDue = true
  }

  /// true: it refuses for so long that people should know.
  @discardableResult
  package mutating func refused(now: Instant) -> Bool {
    unconfirmed = max(0, unconfirmed - 1)
    refusedAt = now
    isDue = false
    if window != 0 {
      window = 0
      (stoppedAt, channels, isProbing) = (now, 0, false)
      nextProbe = now.adding(milliseconds: delayMilliseconds)
    } else if isProbing {
      isProbing = false
      delayMilliseconds = min(delayMilliseconds * 2, DestinationState.delayMaximumMilliseconds)
      nextProbe = now.adding(milliseconds: delayMilliseconds)
    }
    hasFreshChannel = false
    guard let refusingSince else {
      refusingSince = now
      return false
    }
    guard !isNoted, now.milliseconds(since: refusingSince) >= DestinationState.channelMilliseconds else { return false }
    isNoted = true
    return true
  }

  /// It refused for a second, and may still do so: what waits for it holds something up.
  package func refusesForLong(now: Instant) -> Bool {
    guard window != nil, let refusingSince else { return false }
    return now.milliseconds(since: refusingSince) >= DestinationState.channelMilliseconds
  }

  /// What was published will not be confirmed: the connection is gone. The next one is probed at once: it may be short, too, and what refused
  /// may have been the channel.
  package mutating func lost() {
    unconfirmed = 0
    isProbing = false
    hasFreshChannel = true
    nextProbe = Instant(nanoseconds: .min)
  }

  /// How long it refused, if people know of it and that is over: it took something after its last refusal, and that was long ago.
  package mutating func recovered(now: Instant) -> Int64? {
    guard let refusingSince, takenAt > refusedAt,
      now.milliseconds(since: refusedAt) >= DestinationState.calmMilliseconds
    else { return nil }
    self.refusingSince = nil
    window = nil
    delayMilliseconds = DestinationState.delayMilliseconds
    defer { isNoted = false }
    return isNoted ? refusedAt.milliseconds(since: refusingSince) : nil
  }
}
