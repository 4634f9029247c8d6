import Foundation
import TestSupport
import Testing

/// Jobs from third-party clients, through a worker process, to third-party readers.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct WorkerOutsideClientTests {
  @Test func everyJobHasItsOutcome() throws {
    let world = try WorkerWorld("outside")
    let copies = "\(world.prefix).copies"
    try world.outside.bind(queue: copies, to: "\(world.prefix).results")
    let uuid = "8c1f6f0e-3a57-4d0c-9f0e-2f3f6d1c7a11"
    let broken = #"{"id":"broken","app": com.example"#
    let targetless = #"{"id":"targetless","app":"com.example.app","push_type":"alert","payload":{"aps":{}}}"#
    try world.publish(broken)
    try world.publish(world.job(uuid, number: 1))
    try world.publish(world.job("gone", token: "dead", number: 2), routingKey: "bulk")
    try world.publish(world.job("refused", token: "bad0", number: 3), routingKey: "")
    try world.publish(targetless)
    try world.publish(world.job("again", token: "1503", number: 4), routingKey: "bulk")
    try world.runUntilEmpty()

    let messages = try world.outside.drain(world.outcomesQueue)
    #expect(messages.count == 6)
    var outcomes: [String: WorkerWorld.Outcome] = [:]
    for message in messages {
      let outcome = try JSONDecoder().decode(WorkerWorld.Outcome.self, from: Data(message.body))
      outcomes[outcome.jobID ?? ""] = outcome
      #expect(message.type == "push.outcome.v1")
      #expect(message.contentType == "application/json")
      #expect(message.deliveryMode == 2)
      if outcome.outcome != "invalid" {
        #expect(message.messageID == outcome.apnsID)
        #expect(message.routingKey == "\(outcome.outcome).production.com.example.app")
      }
    }
    let accepted = try #require(outcomes[uuid])
    #expect(accepted.outcome == "accepted" && accepted.status == 200 && accepted.attempts == 1)
    #expect(accepted.apnsID == uuid)
    let gone = try #require(outcomes["gone"])
    #expect(gone.outcome == "unregistered" && gone.status == 410 && gone.reason == "Unregistered")
    let refused = try #require(outcomes["refused"])
    #expect(refused.outcome == "rejected" && refused.status == 400 && refused.reason == "BadDeviceToken")
    let again = try #require(outcomes["again"])
    #expect(again.outcome == "accepted" && again.attempts == 2)
    #expect(!again.ambiguous)
    let invalid = messages.filter { $0.routingKey.hasPrefix("invalid.") }
    #expect(invalid.count == 2)
    let missing = try #require(outcomes["targetless"])
    #expect(missing.outcome == "invalid" && missing.attempts == 0)
    #expect(missing.detail?.contains("to") == true, "\(missing.detail ?? "")")

    // The dead letters have exactly the bytes that came in.
    let dead = try world.outside.drain("\(world.prefix).dead")
    #expect(Set(dead.map(\.body)) == [Array(broken.utf8), Array(targetless.utf8)])
    #expect(dead.allSatisfy { $0.headers["x-herald-reason"] == "invalid" })
    #expect(dead.allSatisfy { $0.headers["x-herald-detail"]?.isEmpty == false })

    let consumed = try world.outside.consume(6, from: copies).split(separator: "\n")
    #expect(Set(consumed.map { Array($0.utf8) }) == Set(messages.map(\.body)))
    #expect(try world.simulator.counters().requests == 5)
  }

  @Test func aHugeJobHarmsNoNeighbour() throws {
    let world = try WorkerWorld("huge")
    let huge = "{\"id\":\"huge\",\"meta\":\"" + String(repeating: "x", count: 10_000_000) + "\"}"
    try world.publishJobs(0..<20)
    try world.publish(huge)
    let alsoHuge = String(huge.prefix(600_000))
    try world.publish(alsoHuge)
    try world.publishJobs(20..<40)
    try world.runUntilEmpty()
    let outcomes = try world.takeOutcomes()
    #expect(outcomes.count == 42)
    #expect(outcomes.filter { $0.outcome == "accepted" }.count == 40)
    let invalid = outcomes.filter { $0.outcome == "invalid" }
    #expect(invalid.count == 2)
    #expect(Set(invalid.map(\.apnsID)).count == 2, "unreadable jobs are different jobs")
    let details = invalid.map { $0.detail ?? "" }
    for size in ["\(huge.utf8.count) bytes", "\(alsoHuge.utf8.count) bytes"] {
      #expect(details.contains { $0.contains(size) }, "\(details)")
    }
    let dead = try world.outside.drain("\(world.prefix).dead")
    #expect(Set(dead.map(\.body.count)) == [huge.utf8.count, alsoHuge.utf8.count])
  }
}
