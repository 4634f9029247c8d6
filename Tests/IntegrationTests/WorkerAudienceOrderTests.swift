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
}
