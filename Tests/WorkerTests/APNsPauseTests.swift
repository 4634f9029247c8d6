import PushCore
import PushCredentials
import PushIO
import PushLane
import Testing

/// Which answers pause what, and what goes on.
@Suite struct APNsPauseTests {
  private func makeBench() throws -> APNsTestBench {
    let bench = try APNsTestBench(apps: ["com.example.app", "com.example.other"])
    bench.judge = { service, answer, now in
      let verdict = Verdict(answer, tokenRegisteredAt: nil, resends: 0)
      if verdict.concernsService { service.apply(verdict, topic: "com.example.app", pool: PoolIndex(0), now: now) }
    }
    return bench
  }

  private func liveActivity(isBroadcast: Bool) -> PushJob {
    var job = APNsTestFiles.job(
      app: "com.example.app", token: isBroadcast ? "dHN0LXNyY2gtY2hubA==" : "00fc13adff785122", type: .liveactivity)
    if isBroadcast { job.targetKind = .channel }
    job.expiration = 0
    return job
  }

  @Test(.timeLimit(.minutes(2))) func broadcastsThatAreNotEnabledHoldUpNoDevicePush() throws {
    let bench = try makeBench()
    bench.server.answer = { server, request in
      if request.path.hasPrefix("/4/") {
        server.respond(request, status: 400, body: #"{"reason":"FeatureNotEnabled"}"#)
      } else {
        server.respond(request)
      }
    }
    #expect(bench.send(liveActivity(isBroadcast: false)) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    #expect(bench.send(liveActivity(isBroadcast: true)) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.answers.last?.reason == .featureNotEnabled)
    #expect(bench.trySend(liveActivity(isBroadcast: false)).0 == .sent, "a push to a device of the same topic")
    bench.loop.flush()
    #expect(bench.turn { bench.answers.count == 3 })
    guard case .paused = bench.trySend(liveActivity(isBroadcast: true)).0 else {
      Issue.record("the app's broadcasts go on")
      return
    }
    #expect(bench.notices.count { $0.contains("FeatureNotEnabled") } == 1)
  }

  /// A credential may list several apps, and a job of one may have a topic of another.
  @Test(.timeLimit(.minutes(2))) func anotherAppsJobsPauseNoTopic() throws {
    let bench = try makeBench()
    bench.server.answer = { server, request in
      server.respond(request, status: 400, body: #"{"reason":"TopicDisallowed"}"#)
    }
    func foreign(_ number: Int) -> PushJob {
      var job = APNsTestFiles.job(app: "com.example.other", token: "00fc13adff7851\(number)")
      let topic = Array("com.example.app".utf8)
      job.topic = ByteRange(start: job.bytes.count, count: topic.count)
      job.bytes += topic
      return job
    }
    var isPaused = false
    for number in 10..<90 where !isPaused {
      let before = bench.answers.count
      var isSent = false
      #expect(
        bench.turn {
          if !isSent, case let decision = bench.trySend(foreign(number)).0 {
            isSent = decision == .sent
            if case .paused = decision { isPaused = true }
          }
          return isPaused || bench.answers.count > before
        })
    }
    #expect(isPaused, "its own jobs are paused")
    #expect(bench.trySend(bench.job()).0 == .sent, "those of the topic's app are not")
  }
}
