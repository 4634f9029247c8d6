import PushCore
import PushIO
import Testing

@testable import PushLane

/// The process's cache of channel policies, and its bounds.
@Suite struct ChannelPolicyCacheTests {
  private let cache = ChannelPolicyCache()
  private let now = Instant(nanoseconds: 1)

  private func key(_ number: Int) -> TargetKey { TargetKey(high: 9, low: UInt64(number)) }

  /// The channel of a number.
  private func channel(_ number: Int) throws -> ChannelPolicyCache.Channel {
    let digits = String(number)
    let id = try #require(ChannelID(text: String(repeating: "A", count: 24 - digits.count) + digits))
    let scope = try #require(AppScope(app: "com.example.app", environment: .production))
    return ChannelPolicyCache.Channel(scope: scope, id: id)
  }

  private func asked(_ maximum: Int = 30_000) -> [TargetKey] {
    cache.take(questionsMaximum: maximum, withUses: false).questions.map(\.key)
  }

  /// A channel is evicted while its question is pending: the question is asked again, so no broadcast waits for ever.
  @Test func whatWasForgottenIsAskedAgain() throws {
    let first = try channel(0)
    cache.ask(key(0)) { first }
    for number in 1...ChannelPolicyCache.entriesMaximum {
      let other = try channel(number)
      cache.use(key(number), at: 1) { other }
    }
    #expect(asked().isEmpty, "it made room")
    cache.ask(key(0)) { first }
    #expect(asked() == [key(0)])
  }

  /// More channels than fit: the newest stay cached, and evicted ones can be asked about again.
  @Test func theOldestMakesRoom() throws {
    let count = ChannelPolicyCache.entriesMaximum
    for number in 0...count {
      let channel = try channel(number)
      cache.ask(key(number)) { channel }
    }
    let questions = asked()
    #expect(questions.count == count && questions.first == key(1) && questions.last == key(count))
    for key in questions { cache.answer(key, StoragePolicy.none, now: now) }
    #expect(cache.look(key(1), now: now) == .known(.none) && cache.look(key(count), now: now) == .known(.none))
    let first = try channel(0)
    cache.ask(key(0)) { first }
    #expect(asked() == [key(0)])
    cache.answer(key(0), .mostRecent, now: now)
    #expect(cache.look(key(0), now: now) == .known(.mostRecent))
    #expect(cache.look(key(1), now: now) == nil, "the oldest made room")
    #expect(cache.look(key(2), now: now) == .known(.none), "and nobody else")
  }

  /// A malformed channel id is never asked about.
  @Test func whatIsNoChannelIsNotAsked() throws {
    cache.ask(key(1)) { nil }
    #expect(asked().isEmpty)
    let channel = try channel(1)
    cache.ask(key(1)) { channel }
    #expect(asked() == [key(1)], "nothing is kept of it")
  }

  /// Pending questions are not repeated; an expired answer is asked again.
  @Test func asksOnce() throws {
    let channel = try channel(1)
    cache.ask(key(1)) { channel }
    cache.ask(key(1)) { channel }
    #expect(asked() == [key(1)])
    cache.ask(key(1)) { channel }
    #expect(asked().isEmpty, "it is on its way")
    cache.answer(key(1), nil, now: now)
    #expect(cache.look(key(1), now: now) == .unknown)
    #expect(cache.look(key(1), now: now.adding(milliseconds: 10_001)) == nil)
    cache.ask(key(1)) { channel }
    #expect(asked() == [key(1)])
  }

  /// The use of an unknown channel is reported once APNs confirmed that the channel exists.
  @Test func usesAreReportedOfKnownChannels() throws {
    let channel = try channel(1)
    cache.use(key(1), at: 7) { channel }
    #expect(cache.take(questionsMaximum: 0, withUses: true).uses.isEmpty)
    #expect(asked() == [key(1)])
    cache.answer(key(1), StoragePolicy.none, now: now)
    #expect(cache.take(questionsMaximum: 0, withUses: true).uses == [.init(channel: channel, unixSeconds: 7)])
    #expect(cache.take(questionsMaximum: 0, withUses: true).uses.isEmpty)
    cache.gone(key(1))
    #expect(cache.take(questionsMaximum: 0, withUses: false).gone == [channel])
    #expect(cache.look(key(1), now: now) == nil)
  }
}
