import Foundation
import PushCore
import TestSupport
import Testing

/// Jobs for audiences that replace each other on their devices.
extension WorkerAudienceTests {
  /// Whenever they are expanded.
  @Test func jobsOfACollapseID_keepTheirOrderAsPages() throws {
    let world = try AudienceWorld("page-order")
    try world.registry.register(0..<1)
    let second = Int64(Date.now.timeIntervalSince1970) - 2
    for (id, ago) in [("newer", 0), ("older", 3)] as [(String, Int64)] {
      let body = """
        {"version":1,"id":"\(id)","app":"com.example.app","push_type":"alert","to":{"devices":["d-0"]},\
        "collapse_id":"score","payload":{"aps":{"alert":"\(id)"}}}
        """
      try world.world.outside.publish(
        [body], exchange: "\(world.world.prefix).jobs", routingKey: "bulk", timestamp: second - ago)
      try world.world.runUntilEmpty()
    }
    let (newer, older) = (try world.waitForEnd(of: "newer"), try world.waitForEnd(of: "older"))
    #expect(newer.summary == ["devices": 1, "accepted": 1], "\(newer)")
    #expect(older.summary == ["devices": 1, "throttled": 1], "\(older)")
  }

  /// It is not older than itself, whatever the worker's clock says; it is older than what came while it waited.
  @Test(arguments: [0, 1]) func anUnnumberedJobOfACollapseIDComesBack(secondsAhead: Int) throws {
    let world = try WorkerWorld("own-order")
    let worker = try world.startWorker(secondsAhead: secondsAhead)
    defer { _ = worker.drain(seconds: 20) }
    let count = 20
    func publish(_ name: String, more: String = "") throws {
      let bodies = (0..<count).map { number in
        world.job("\(name)-\(number)", number: number).replacing(
          "\"push_type\"", with: "\"collapse_id\":\"score\",\(more)\"push_type\"")
      }
      try world.outside.publish(bodies, exchange: "\(world.prefix).jobs", routingKey: "transactional")
    }
    var ends: [WorkerWorld.Outcome] = []
    func end(of name: String) throws -> [String] {
      let all = ChildProcess.poll(timeoutMilliseconds: 30_000, everyMilliseconds: 50) { () -> [String]? in
        ends += (try? world.takeOutcomes()) ?? []
        let own = ends.filter { $0.jobID?.hasPrefix("\(name)-") == true }
        return own.count >= count ? own.map(\.outcome) : nil
      }
      return try #require(all, "\(ends.count) ended: \(worker.log.suffix(2_000))")
    }
    func waitForRefusals(_ number: Int) throws {
      let refused = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 10) { () -> Bool? in
        let answers = (try? world.simulator.counters().answers) ?? [:]
        return answers.filter { $0.key.hasPrefix("503") }.values.reduce(0, +) >= number ? true : nil
      }
      try #require(refused == true, "\(worker.log.suffix(2_000))")
    }
    let sequence = (Int64(Date().timeIntervalSince1970) - 60) * 1_000_000
    try publish("numbered", more: "\"sequence\":\(sequence),")
    #expect(try end(of: "numbered").allSatisfy { $0 == "accepted" })
    try world.simulator.setFaults("status=503,reason=ServiceUnavailable")
    try publish("own")
    try waitForRefusals(count)
    try world.simulator.clearFaults()
    let own = try end(of: "own")
    #expect(own.allSatisfy { $0 == "accepted" }, "\(own)")
    try world.simulator.setFaults("status=503,reason=ServiceUnavailable")
    try publish("older")
    try waitForRefusals(2 * count)
    // While none is accepted: the older ones come back within a second.
    try publish("newer")
    try world.simulator.clearFaults()
    #expect(try end(of: "newer").allSatisfy { $0 == "accepted" })
    let older = try end(of: "older")
    #expect(older.allSatisfy { $0 == "throttled" }, "\(older)")
  }
}
