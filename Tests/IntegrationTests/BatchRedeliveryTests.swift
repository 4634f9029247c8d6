import Foundation
import TestSupport
import Testing

/// Jobs for 1000 devices with a real RabbitMQ and Redis.
@Suite(.serialized, .timeLimit(.minutes(3)))
struct BatchRedeliveryTests {
  private func batch(_ numbers: Range<Int>) -> String {
    let tokens = numbers.map { number in
      let digits = String(number, radix: 16)
      return "\"00fc" + String(repeating: "0", count: 60 - digits.count) + digits + "\""
    }
    return "{\"id\":\"batch\",\"app\":\"com.example.app\",\"push_type\":\"alert\","
      + "\"to\":{\"tokens\":[\(tokens.joined(separator: ","))]},\"payload\":{\"aps\":{\"alert\":\"Hello\"}}}"
  }

  /// Some targets of a batch already have outcomes, as after a worker's end: the worker sends only the rest, and reports all.
  @Test func onlyWhatIsOpenIsSent() throws {
    let world = try WorkerWorld("batch")
    try world.publish(batch(0..<400))
    try world.runUntilEmpty()
    #expect(try world.simulator.counters().accepted == 400)
    #expect(try world.takeOutcomes().count == 400)
    // Another worker, the same job: this time with all of its targets.
    try world.publish(batch(0..<1000))
    try world.runUntilEmpty()
    let counters = try world.simulator.counters()
    #expect(counters.accepted == 1000 && counters.acceptedIDs == 1000 && counters.duplicateIDs == 0)
    #expect(counters.requests == 1000)
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.count == 1400 && outcomes.allSatisfy { $0.outcome == "accepted" && $0.jobID == "batch" })
    #expect(Set(outcomes.compactMap(\.apnsID)).count == 1000)
  }
}
