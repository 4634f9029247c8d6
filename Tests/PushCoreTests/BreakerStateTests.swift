import PushCore
import Testing

/// The breaker as a trace: event, then what it says.
struct BreakerStateTests {
  private func makeBreaker() -> BreakerState {
    var settings = BreakerState.Settings()
    settings.failuresMaximum = 3
    settings.failingMilliseconds = 2
    settings.probeIntervalMilliseconds = 100
    return BreakerState(settings: settings)
  }

  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  @Test func failuresInARowOpenItAndAProbeClosesIt() {
    var breaker = makeBreaker()
    #expect(breaker.isClosed)
    #expect(breaker.failed(now: at(0)) == false)
    #expect(breaker.failed(now: at(1)) == false)
    breaker.succeeded()
    #expect(breaker.failed(now: at(2)) == false)
    #expect(breaker.failed(now: at(3)) == false)
    #expect(breaker.failed(now: at(4)) == true)
    #expect(!breaker.isClosed)
    #expect(breaker.failed(now: at(5)) == false, "opened once")
    breaker.succeeded()
    #expect(!breaker.isClosed, "a late answer is no recovery")
    #expect(breaker.takeProbe(now: at(103)) == false)
    #expect(breaker.takeProbe(now: at(104)) == true)
    #expect(breaker.takeProbe(now: at(500)) == false, "one probe at a time")
    #expect(breaker.probeAnswered(isHealthy: true, now: at(110)) == true)
    #expect(breaker.isClosed)
  }

  @Test func manyAtOnceSayNothingAndSoDoFewInALongTime() {
    var breaker = makeBreaker()
    for _ in 0..<100 { #expect(breaker.failed(now: at(0)) == false, "one bad moment") }
    breaker.succeeded()
    #expect(breaker.failed(now: at(10)) == false)
    #expect(breaker.failed(now: at(1000)) == false, "two, however far apart")
    breaker.succeeded()
    for time in Int64(2000)..<2002 { #expect(breaker.failed(now: at(time)) == false) }
    #expect(breaker.failed(now: at(2002)) == true, "enough, for long enough")
  }

  @Test func aSickProbeKeepsItOpenAndALateOneDoesNot() {
    var breaker = makeBreaker()
    for time in [Int64(-2), -1, 0] { _ = breaker.failed(now: at(time)) }
    #expect(breaker.takeProbe(now: at(100)) == true)
    #expect(breaker.probeAnswered(isHealthy: false, now: at(222)) == false)
    #expect(breaker.probeAnswered(isHealthy: true, now: at(223)) == false, "nobody asked")
    #expect(!breaker.isClosed)
    #expect(breaker.takeProbe(now: at(322)) == true)
    #expect(breaker.probeAnswered(isHealthy: true, now: at(2_000)) == true, "it answers; who was late is unknown")
    #expect(breaker.isClosed)
  }

  @Test func aLossOpensAndAConnectionCloses() {
    var breaker = makeBreaker()
    #expect(breaker.lost(now: at(0)) == true)
    #expect(breaker.lost(now: at(1)) == false)
    #expect(breaker.connected() == true)
    #expect(breaker.connected() == false)
    #expect(breaker.isClosed)
  }
}
