import PushCore
import Testing

/// One server of the admission store as a trace: the results of its commands, then whether it gets questions and outcomes.
struct AdmissionServerStateTests {
  private func makeServer() -> AdmissionServerState {
    var settings = BreakerState.Settings()
    settings.failuresMaximum = 2
    settings.failingMilliseconds = 1
    settings.probeIntervalMilliseconds = 100
    return AdmissionServerState(breaker: settings)
  }

  private func makeConnected() -> AdmissionServerState {
    var server = makeServer()
    server.connected()
    return server
  }

  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test func itIsInTroubleUntilItIsConnected() {
    var server = makeServer()
    #expect(server.trouble == "Redis is not connected yet")
    server.connected()
    #expect(server.trouble == nil && server.isAsked && server.takesOutcomes)
    server.disconnected("reset", now: at(0))
    #expect(server.trouble == "reset" && !server.isAsked && !server.takesOutcomes)
    server.connected()
    #expect(server.trouble == nil && server.isAsked && server.takesOutcomes)
  }

  @Test func failuresSpareItAndAProbeEndsThat() {
    var server = makeConnected()
    #expect(server.failed("slow", now: at(0)) == false)
    server.answered()
    #expect(server.failed("slow", now: at(1)) == false)
    #expect(server.trouble == nil, "not in a row")
    #expect(server.failed("slower", now: at(2)) == true)
    #expect(server.trouble == "slower" && !server.isAsked)
    #expect(server.failed("slowest", now: at(3)) == false)
    #expect(server.trouble == "slower", "what opened it")
    #expect(server.takeProbe(now: at(101)) == false)
    #expect(server.takeProbe(now: at(102)) == true)
    server.probeAnswered(.unreadable, now: at(123))
    #expect(server.trouble == "slower")
    #expect(server.takeProbe(now: at(223)) == true)
    server.probeAnswered(.healthy, now: at(224))
    #expect(server.trouble == nil && server.isAsked)
  }

  @Test func whoeverTakesNoWritesIsStillAsked() {
    var server = makeConnected()
    #expect(server.failed("slow", now: at(0)) == false)
    server.refusedWrite("OOM")
    #expect(server.trouble == "OOM" && server.isAsked && !server.takesOutcomes)
    #expect(server.failed("slow", now: at(5)) == false, "a refusal is an answer")
    #expect(server.takeProbe(now: at(6)) == true, "at once")
    #expect(server.takeProbe(now: at(105)) == false)
    server.probeAnswered(.refusesWrites(reason: "READONLY"), now: at(105))
    #expect(server.trouble == "READONLY")
    #expect(server.takeProbe(now: at(106)) == true)
    server.probeAnswered(.unreadable, now: at(107))
    #expect(server.trouble == "READONLY")
    server.probeAnswered(.healthy, now: at(108))
    #expect(server.trouble == nil && server.takesOutcomes)
    #expect(server.takeProbe(now: at(500)) == false, "nothing to find out")
  }

  @Test func aStoredClaimShowsThatItTakesWrites() {
    var server = makeConnected()
    #expect(server.stored() == false)
    server.refusedWrite("OOM")
    #expect(server.stored() == true)
    #expect(server.trouble == nil && server.takesOutcomes)
  }

  /// It answers, so the breaker closes; it refuses writes, so it stays degraded.
  @Test func aRefusedWriteClosesTheBreaker() {
    var server = makeConnected()
    server.disconnected("reset", now: at(0))
    #expect(server.takeProbe(now: at(100)) == true)
    server.probeAnswered(.refused(reason: "LOADING"), now: at(101))
    #expect(server.trouble == "LOADING" && !server.isAsked)
    #expect(server.takeProbe(now: at(201)) == true)
    server.probeAnswered(.refusesWrites(reason: "READONLY"), now: at(202))
    #expect(server.trouble == "READONLY" && server.isAsked && !server.takesOutcomes)
  }

  @Test func aRefusedProbeOfOneThatIsAskedIsNoOutage() {
    var server = makeConnected()
    server.refusedWrite("OOM")
    #expect(server.takeProbe(now: at(0)) == true)
    server.probeAnswered(.refused(reason: "LOADING"), now: at(1))
    #expect(server.trouble == "OOM" && server.isAsked)
  }

  @Test func aReplicaIsLookedUpNowAndThen() {
    var server = makeConnected()
    #expect(server.takeReconnect(now: at(0)) == true)
    #expect(server.takeReconnect(now: at(4999)) == false)
    #expect(server.takeReconnect(now: at(5000)) == true)
  }
}
