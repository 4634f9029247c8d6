import PushCore
import PushCredentials
import PushLane
import Testing

/// What becomes of pages, and of other jobs, that are refused.
extension LaneAudienceTests {
  /// Another program's value may be there for good: the page ends with its time, and its devices with it. But what a failover of Redis has
  /// mixed up is right when it is read again.
  @Test func aPageThatCannotBeReadEndsWithItsTime() {
    for (hasExpired, isNew) in [(false, false), (true, true), (true, false)] {
      let isOver = hasExpired && !isNew
      let bench = bench(page("7,8"))
      bench.world.tokens = nil
      bench.world.directoryFailure = .unreadable("WRONGTYPE")
      bench.consume(0..<1) { metadata in
        if hasExpired { metadata.enqueuedAt = 1_000_000 }
        metadata.firstSeen = bench.world.milliseconds - (isNew ? 29_000 : 30_000)
      }
      bench.turn(8)
      #expect(bench.world.retries.count == (isOver ? 0 : 1) && bench.world.outcomes.count == (isOver ? 1 : 0))
      #expect(!isOver || part("\"outcome\":\"expired\"", bench) && part("could not be read: WRONGTYPE", bench))
      let ends = #"{"settles":"p",\#(LaneAudienceTests.app),"page":3,"position":0,"ends":"ee","ordinals":"0:7,8"}"#
      #expect(bench.world.settlements == (isOver ? [ends] : []))
      #expect(bench.world.acknowledged == [1] && bench.jobsInFlight == 0)
    }
  }

  /// This copy is not sent: its credential is gone, or nobody can read whose device it is until its time is over. An earlier
  /// one may have been.
  @Test(arguments: [true, false], [true, false])
  func startThatMayHaveBeenAccepted_keepsItsDeviceIfItIsRefused(isUnreadable: Bool, mayBeRepeated: Bool) {
    let bench = bench(startPage)
    if isUnreadable {
      bench.world.tokens = nil
      bench.world.directoryFailure = .unreadable("WRONGTYPE")
    } else {
      bench.world.routingError = RoutingError(field: "app", detail: "has no credential")
    }
    bench.consume(0..<1) {
      $0.isAmbiguous = mayBeRepeated
      $0.firstSeen = bench.world.milliseconds - 30_000
      if isUnreadable { $0.enqueuedAt = 1_000_000 }
    }
    bench.turn(8)
    let outcome = isUnreadable ? "expired" : "invalid"
    #expect(bench.world.requests.isEmpty && part("\"outcome\":\"\(outcome)\"", bench))
    #expect(part(#""ambiguous":true"#, bench) == mayBeRepeated)
    #expect(bench.world.settlements.last?.contains(mayBeRepeated ? #""starts":"y""# : #""starts":"n""#) == true)
  }

  /// What no worker can read was never sent, however often it came.
  @Test func aJobThatIsNone_isNotAmbiguous() {
    let bench = bench("{}")
    bench.consume(0..<1) { $0.isAmbiguous = true }
    bench.turn()
    #expect(part(#""outcome":"invalid""#, bench) && part(#""ambiguous":false"#, bench))
  }
}
