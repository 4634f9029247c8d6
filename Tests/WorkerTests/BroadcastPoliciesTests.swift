import Foundation
import PushCore
import PushCredentials
import PushIO
import PushLane
import Testing

/// Broadcasts and the storage policies of their channels, as a lane sees them.
@Suite struct BroadcastPoliciesTests {
  private static let id = "dHN0LXNyY2gtY2hubA=="

  private func job(expiration: Int64?) -> PushJob {
    var job = APNsTestFiles.job(app: "com.example.app", token: BroadcastPoliciesTests.id, type: .liveactivity)
    job.targetKind = .channel
    job.expiration = expiration
    return job
  }

  /// Answers every question of the lane.
  private func answer(_ cache: ChannelPolicyCache, _ storage: StoragePolicy?, _ bench: APNsTestBench) -> Int {
    let work = cache.take(questionsMaximum: 10, withUses: false)
    for (key, channel) in work.questions {
      #expect(channel.id.text == BroadcastPoliciesTests.id && channel.scope.app == "com.example.app")
      cache.answer(key, storage, now: bench.loop.now.monotonic)
    }
    return work.questions.count
  }

  /// Sends once: the broadcast is held until the cache answers. Returns the decision after the answer.
  private func afterHold(_ bench: APNsTestBench, _ job: borrowing PushJob) -> SendDecision? {
    let (decision, ticket) = bench.trySend(job)
    guard decision == .held else { return decision }
    #expect(bench.turn { bench.released == [ticket] }, "a held broadcast is given back")
    #expect(bench.answers.isEmpty, "no request was made of it")
    var last: SendDecision?
    _ = bench.turn {
      last = bench.trySend(job).0
      return last != .noRoom
    }
    return last
  }

  @Test(.timeLimit(.minutes(2))) func absentExpirationIsWhatTheChannelWants() throws {
    for (storage, isStored) in [(StoragePolicy.mostRecent, true), (.none, false)] {
      let cache = ChannelPolicyCache()
      let bench = try APNsTestBench(policies: cache)
      let job = job(expiration: nil)
      #expect(bench.trySend(job).0 == .held)
      #expect(bench.server.requests.isEmpty, "and not sent")
      #expect(answer(cache, storage, bench) == 1)
      #expect(bench.turn { bench.released.count == 1 })
      #expect(bench.send(job) != nil)
      #expect(bench.turn { bench.answers.count == 1 })
      let request = try #require(bench.server.requests.first)
      let expiration = try #require(Int64(request.expiration))
      let eightHours = bench.loop.now.unixSeconds + 28_800
      #expect(isStored ? (eightHours - 120...eightHours).contains(expiration) : expiration == 0)
      #expect(answer(cache, storage, bench) == 0, "asked once")
    }
  }

  @Test(.timeLimit(.minutes(2))) func whatAChannelWithoutStorageCannotKeepIsRefused() throws {
    let cache = ChannelPolicyCache()
    let bench = try APNsTestBench(policies: cache)
    let wanted = bench.loop.now.unixSeconds + 600
    let job = job(expiration: wanted)
    #expect(bench.trySend(job).0 == .held)
    #expect(answer(cache, StoragePolicy.none, bench) == 1)
    #expect(bench.turn { bench.released.count == 1 })
    guard case .refused(let error) = bench.trySend(job).0 else {
      Issue.record("it was taken")
      return
    }
    #expect(error.field == "expiration" && error.detail.contains("storage policy is none, not \(wanted)"))
    #expect(bench.server.requests.isEmpty)
  }

  /// Held broadcasts keep deliveries that other jobs need.
  @Test(.timeLimit(.minutes(2))) func fewAreHeld_andASilentCacheIsNotWaitedForAgain() throws {
    let bench = try APNsTestBench(policies: ChannelPolicyCache())
    func job(_ number: UInt8, _ environment: APNsEnvironment = .production) -> PushJob {
      let id = Data(repeating: number, count: 16).base64EncodedString()
      var job = APNsTestFiles.job(app: "com.example.app", token: id, type: .liveactivity)
      job.environment = environment
      job.targetKind = .channel
      return job
    }
    for number in 0..<UInt8(64) { #expect(bench.trySend(job(number)).0 == .held) }
    #expect(bench.trySend(job(64)).0 == .noRoom)
    #expect(bench.turn { bench.released.count == 64 })
    var last: SendDecision?
    _ = bench.turn {
      last = bench.trySend(job(65)).0
      return last != .noRoom
    }
    #expect(last == .sent)
    // Others are not judged by it.
    #expect(bench.trySend(job(66, .sandbox)).0 == .held)
  }

  @Test(.timeLimit(.minutes(2))) func moreThanEightHoursNeedNoPolicy() throws {
    let bench = try APNsTestBench()
    let job = job(expiration: bench.loop.now.unixSeconds + 28_900)
    guard case .refused(let error) = bench.trySend(job).0 else {
      Issue.record("it was taken")
      return
    }
    #expect(error.field == "expiration" && error.detail.contains("8 hours"))
  }

  @Test(.timeLimit(.minutes(2))) func withoutAnAnswerAPNsJudges() throws {
    let bench = try APNsTestBench(policies: ChannelPolicyCache())
    let wanted = bench.loop.now.unixSeconds + 600
    let start = bench.loop.now.monotonic
    #expect(afterHold(bench, job(expiration: wanted)) == .sent, "held for two seconds, and not for ever")
    #expect(bench.loop.now.monotonic.milliseconds(since: start) >= 1_900)
    #expect(bench.turn { bench.server.requests.count == 1 })
    #expect(bench.server.requests.first?.expiration == "\(wanted)")
    // Devices, and channels with expiration 0, need no policy.
    let other = try APNsTestBench(policies: ChannelPolicyCache())
    #expect(other.trySend(job(expiration: nil)).0 == .held)
    #expect(other.send(other.job()) != nil)
    #expect(other.send(job(expiration: 0)) != nil)
    #expect(other.turn { other.answers.count(where: { $0.kind == .response }) == 2 })
    #expect(other.answers.allSatisfy { $0.kind == .response }, "the held one is held still")
  }

  @Test func usesAreReportedOnceAMinuteAndOnlyOfChannels() throws {
    let cache = ChannelPolicyCache()
    let bench = try APNsTestBench(policies: cache)
    let job = job(expiration: 0)
    for _ in 0..<3 { #expect(bench.send(job) != nil) }
    #expect(cache.take(questionsMaximum: 0, withUses: true).uses.isEmpty, "not known to be a channel yet")
    #expect(answer(cache, .mostRecent, bench) == 1)
    let uses = cache.take(questionsMaximum: 0, withUses: true).uses
    #expect(uses.map(\.channel.id.text) == [BroadcastPoliciesTests.id])
    #expect(bench.send(job) != nil)
    #expect(cache.take(questionsMaximum: 0, withUses: true).uses.isEmpty, "reported within this minute")
  }
}
