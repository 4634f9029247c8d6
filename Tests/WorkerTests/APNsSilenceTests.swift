import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// An APNs that does not answer: one request, one connection, or all.
@Suite struct APNsSilenceTests {
  /// It accepts connections and never completes a TLS handshake.
  @Test(.timeLimit(.minutes(5))) func aConnectionThatNeverOpensIsGivenUp() throws {
    let mute = try MuteServer()
    let bench = try APNsTestBench(isTLS: true, port: mute.port) {
      $0.timing.openMilliseconds = 100
      $0.poolLimits.breakerFailures = 3
    }
    #expect(
      bench.turn {
        _ = bench.trySend(bench.job())
        return bench.service.counters.connectionsFailed >= 3
      })
    #expect(bench.service.counters.ended(for: .notOpened) >= 3)
    #expect(bench.notices.contains { $0.contains("cannot connect") }, "\(bench.notices)")
    #expect(bench.trySend(bench.job()).0 == .stalled, "jobs go to the retry queues")
  }

  @Test(.timeLimit(.minutes(5))) func aLostConnectionTellsEveryRequest() throws {
    let bench = try APNsTestBench()
    bench.server.answer = { _, _ in }
    for _ in 0..<1 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { bench.server.requests.count == 1 })
    for _ in 0..<20 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { bench.server.requests.count == 21 })
    bench.server.answer = nil
    bench.server.connections[0].abort()
    #expect(bench.turn { bench.answers.count == 21 })
    #expect(bench.answers.allSatisfy { $0.kind == .lost })
    #expect(bench.service.inFlight == 0)
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.last?.status == 200 })
  }

  @Test(.timeLimit(.minutes(5))) func aRequestWithoutAnswerIsTimedOutAndItsStreamCancelled() throws {
    let bench = try APNsTestBench { $0.requestTimeoutMilliseconds = 150 }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    bench.server.answer = { server, request in
      // APNs answers other requests, so the connection works.
      if request.path.hasSuffix("ab50") == false { server.respond(request) }
    }
    let sentSilent = bench.send(bench.job("00fcab50"))
    let silent = try #require(sentSilent)
    var next = bench.loop.now.monotonic
    #expect(
      bench.turn {
        if bench.loop.now.monotonic >= next {
          next = bench.loop.now.monotonic.adding(milliseconds: 20)
          _ = bench.trySend(bench.job())
        }
        return bench.answers.contains { $0.kind == .timedOut }
      })
    #expect(bench.answers.first { $0.kind == .timedOut }?.ticket == silent)
    #expect(bench.turn { bench.server.connections[0].counters.resetsReceived == 1 })
    #expect(bench.server.connections.count == 1)
    #expect(bench.answers.count { $0.ticket == silent } == 1)
  }

  /// It answers pings, and allows no more requests: that looks like an idle connection.
  @Test(.timeLimit(.minutes(5))) func connectionThatAllowsNoRequests_isReplaced() throws {
    let bench = try APNsTestBench { $0.timing.openMilliseconds = 1_500 }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    bench.server.connections[0].changeMaximumStreams(0)
    #expect(
      bench.turn {
        _ = bench.trySend(bench.job())
        let isReplaced = bench.service.counters.ended(for: .stuck) == 1
        return isReplaced && bench.answers.count > 1 && bench.answers.last?.status == 200
      }, "\(bench.notices)")
    #expect(
      bench.service.counters.ended(for: .stuck) == 1 && bench.notices.contains { $0.contains("allows no requests") })
  }

  /// The end of an abandoned stream is reported late, while its job is being sent again.
  @Test(.timeLimit(.minutes(5))) func theLateEndOfARequestIsNotItsSuccessors() throws {
    let bench = try APNsTestBench { configuration in
      configuration.requestTimeoutMilliseconds = 300
      // Other streams of this connection are answered: only the one stream is stuck.
      configuration.timing.silenceMilliseconds = 60_000
    }
    let silent = "51fc13adff785122"
    var asked = 0
    bench.server.answer = { server, request in
      if request.path.hasSuffix(silent) {
        asked += 1
        if asked == 1 { return }
      }
      server.respond(request)
    }
    guard let ticket = bench.send(bench.job(silent)) else {
      Issue.record("not sent")
      return
    }
    bench.judge = { service, answer, now in
      // A lane does this in the turn that reports it.
      guard answer.ticket == ticket, answer.kind == .timedOut else { return }
      #expect(bench.trySend(bench.job(silent), ticket: ticket).0 == .sent)
    }
    let isDone = bench.turn {
      _ = bench.trySend(bench.job())
      return bench.answers.contains { $0.ticket == ticket && $0.kind == .response }
    }
    #expect(isDone, "the answer to the second request is reported")
    #expect(bench.turn { bench.service.inFlight == 0 })
    #expect(bench.answers.filter { $0.ticket == ticket }.map(\.kind) == [.timedOut, .response])
    #expect(asked == 2, "once more, and no more")
    #expect(bench.server.connections.count == 1)
    #expect(bench.service.poolSnapshots(now: bench.loop.now).map(\.streamsInFlight) == [0], "no place leaks")
  }

  @Test(.timeLimit(.minutes(5))) func aConnectionThatAnswersNothingIsReplaced() throws {
    let bench = try APNsTestBench { $0.requestTimeoutMilliseconds = 100 }
    bench.server.answer = { server, request in
      if request.connection > 0 { server.respond(request) }
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    #expect(bench.answers[0].kind == .timedOut)
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 2 })
    #expect(bench.answers[1].status == 200)
    #expect(bench.notices.contains { $0.contains("answers no requests") })
    #expect(bench.turn { bench.service.counters.ended(for: .stuck) == 1 })
  }

  @Test(.timeLimit(.minutes(5))) func aSilentPeerIsPingedThenDropped() throws {
    var settings = HTTP2ServerSettings()
    settings.acknowledgesPings = false
    let bench = try APNsTestBench(settings: settings) {
      $0.timing.silenceMilliseconds = 50
      $0.timing.pongMilliseconds = 50
    }
    bench.server.answer = { _, _ in }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    #expect(bench.answers[0].kind == .lost)
    #expect(bench.service.counters.pings == 1)
    #expect(bench.service.counters.ended(for: .silent) == 1)
  }

  @Test(.timeLimit(.minutes(5))) func aConnectionThatOwesAPongTakesNoRequests() throws {
    var settings = HTTP2ServerSettings()
    settings.acknowledgesPings = false
    let bench = try APNsTestBench(settings: settings) {
      $0.connectionsMaximum = 1
      $0.timing.silenceMilliseconds = 50
      $0.timing.pongMilliseconds = 3_000
    }
    #expect(bench.send(bench.job()) != nil)
    #expect(bench.turn { bench.answers.count == 1 })
    bench.server.answer = { _, _ in }
    #expect(bench.trySend(bench.job()).0 == .sent)
    #expect(bench.trySend(bench.job()).0 == .sent, "there are streams enough")
    #expect(bench.turn { bench.service.counters.pings == 1 })
    #expect(bench.trySend(bench.job()).0 == .noRoom)
  }

  @Test(.timeLimit(.minutes(5))) func aConnectionThatFallsSilentBesideAnotherIsPingedAndSpared() throws {
    var settings = HTTP2ServerSettings()
    settings.maximumStreams = 2
    settings.acknowledgesPings = false
    let bench = try APNsTestBench(settings: settings) {
      $0.connectionsMaximum = 2
      // Too long to cause the one ping of this test.
      $0.timing.silenceMilliseconds = 60_000
    }
    var held: [APNsTestServer.Request] = []
    bench.server.answer = { _, request in held.append(request) }
    for _ in 0..<4 { #expect(bench.send(bench.job()) != nil) }
    #expect(bench.turn { held.count == 4 })
    #expect(Set(held.map(\.connection)) == [0, 1])
    // From now on the second connection does not answer.
    for connection in bench.server.connections { connection.changeMaximumStreams(100) }
    for request in held where request.connection == 0 { bench.server.respond(request) }
    var swallowed = 0
    bench.server.answer = { server, request in
      if request.connection == 0 { server.respond(request) } else { swallowed += 1 }
    }
    #expect(
      bench.turn {
        _ = bench.trySend(bench.job())
        return bench.service.counters.pings == 1
      })
    bench.turn()
    let before = swallowed
    for _ in 0..<50 { #expect(bench.send(bench.job()) != nil) }
    bench.turn()
    #expect(swallowed == before, "nothing more goes there")
    let snapshot = try #require(bench.service.poolSnapshots(now: bench.loop.now).first)
    #expect(snapshot.ready == 1 && snapshot.silent == 1)
    #expect(bench.service.counters.pings == 1)

    // It was only slow: its first answer makes it usable again.
    for request in held where request.connection == 1 { bench.server.respond(request) }
    #expect(bench.turn { bench.service.poolSnapshots(now: bench.loop.now).first?.silent == 0 })
    #expect(bench.server.connections.count == 2)
  }
}
