import Foundation
import PushCore
import PushIO
import PushLane
import TestSupport
import Testing

/// Jobs for audiences of both classes.
extension WorkerAudienceTests {
  /// Half of the bulk jobs wait where lanes handed them over, before the worker starts; lanes hand over the others.
  @Test func aBulkBacklogOfAudiencesHoldsUpNoTransactionalOne() throws {
    let world = try AudienceWorld("audience-classes")
    try world.registry.register(0..<1, user: { _ in "u" })
    let topology = Topology(prefix: world.world.prefix, retryDelaysSeconds: [1, 2])
    let admin = try AMQPAdmin(patientURL: world.world.rabbitmq.url)
    defer { admin.close() }
    let count = 6_000
    let properties = AMQPProperties()
    properties.addHeader("x-herald-class", "bulk")
    for number in 0..<count {
      let isHandedOver = number < count / 2
      let body =
        #"{"version":1,"id":"bulk-\#(number)","app":"com.example.app","push_type":"alert","to":{"users":["nobody"]},"#
        + #""payload":{"aps":{"alert":"x"}}}"#
      try admin.publish(
        to: AMQPExchange(isHandedOver ? "" : topology.jobsExchange, isMandatory: true),
        routingKey: isHandedOver ? topology.expansionsQueue(.bulk) : "bulk", properties: properties,
        body: Array(body.utf8))
    }
    try admin.waitForConfirms()
    try world.publish("urgent", to: #"{"users":["u"]}"#, routingKey: "transactional")
    let worker = try world.world.startWorker(["--until-empty"])
    #expect(worker.waitForExit(seconds: 100) == 0, "\(worker.log)")
    let outcomes = try world.take()
    let before = outcomes.prefix { $0.job != "urgent" }.count
    print("outcomes before that of the transactional job for an audience: \(before) of \(count)")
    #expect(before < count / 2, "\(before) of \(count) bulk jobs were done first")
    #expect(outcomes.count == count + 2, "each has its outcome, and the device its own")
  }
}
