import PushCore
import PushLane
import TestSupport
import Testing

/// Which jobs of a collapse id supersede others.
extension RedisAdmissionStoreTests {
  /// A newer job over the device's rate supersedes one that waits, unless it is dropped: then the device would get neither.
  @Test(arguments: Kind.allCases, [false, true]) func aDroppedJobSupersedesNothing(kind: Kind, isOrdered: Bool) throws {
    struct Scenario: AdmissionScenario {
      let isOrdered: Bool

      func run(_ driver: AdmissionDriver<some AdmissionStore>) throws {
        for drops in [false, true] {
          func job(_ number: Int64) -> PushJob {
            makeJob(token: "dropped-\(drops)", collapseID: "match-7", sequence: isOrdered ? number : nil)
          }
          let first = driver.ask(job(1), id: 1)
          #expect(try Answered(driver.answer(first)) == .proceed)
          let start = driver.now.unixMilliseconds
          try driver.turn(forMilliseconds: 5)
          #expect(try Answered(driver.answer(driver.ask(job(2), id: 2, isDropped: drops))) == .limited)
          let again = driver.ask(job(1), id: 1, firstSeen: start, earlier: driver.claim(of: first))
          #expect(try Answered(driver.answer(again)) == (drops ? .proceed : .superseded))
        }
      }
    }
    try run(kind, limit: RateLimit(burst: 1, perSecond: 0.01), Scenario(isOrdered: isOrdered))
  }
}
