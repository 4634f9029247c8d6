import Foundation
import PushCore
import PushIO
import TestSupport
import Testing

/// The codec, the connection and the command-line helper against a real broker.
@Suite(.timeLimit(.minutes(3)))
struct RabbitMQAdminTests {
  private func admin(_ options: AMQPOptions = AMQPOptions()) throws -> AMQPAdmin {
    try AMQPAdmin(
      addresses: [try AMQPAddress(try RabbitMQServer.shared().url)], tls: nil, name: "herald test", options: options)
  }

  private let quorum = AMQPArgument("x-queue-type", .text("quorum"))
  private let defaultExchange = AMQPExchange("", isMandatory: true)

  /// Nothing comes for longer than the idle time, because RabbitMQ stands still in the middle.
  @Test func aBrokerThatStandsStillIsNoEnd() throws {
    let server = try RabbitMQServer()
    let admin = try AMQPAdmin(
      addresses: [try AMQPAddress(server.url)], tls: nil, name: "herald test", options: AMQPOptions())
    try admin.perform(.declareQueue(name: "admin.still", arguments: [quorum]))
    let properties = AMQPProperties()
    for _ in 0..<2_000 {
      try admin.publish(to: defaultExchange, routingKey: "admin.still", properties: properties, body: [1])
    }
    try admin.waitForConfirms()
    var seen = 0
    let count = try admin.consume(queue: "admin.still", idleMilliseconds: 400) { _ in
      seen += 1
      if seen == 500 {
        server.pause()
        Thread.detachNewThread {
          Thread.sleep(forTimeInterval: 1.5)
          server.resume()
        }
      }
      return .acknowledge
    }
    #expect(count == 2_000)
    admin.close()
  }

  @Test func publishConfirmConsumeAcknowledge() throws {
    let admin = try admin()
    #expect(admin.server.hasPrefix("RabbitMQ"))
    try admin.perform(.declareQueue(name: "admin.simple", arguments: [quorum]))
    let properties = AMQPProperties()
    properties.setMessageID("m-1".utf8.span)
    properties.addHeader("x-herald-attempts", 2)
    for index in 0..<250 {
      try admin.publish(
        to: defaultExchange, routingKey: "admin.simple", properties: properties, body: [UInt8(index % 256)])
    }
    try admin.waitForConfirms()
    #expect(admin.results.confirmed == 250)
    #expect(admin.results.refused + admin.results.returned == 0)
    var seen: [UInt8] = []
    let count = try admin.consume(queue: "admin.simple", limit: 250, idleMilliseconds: 5000) { message in
      seen.append(message.body[0])
      #expect(message.messageID == "m-1")
      #expect(message.metadata.attempts == 2)
      return .acknowledge
    }
    #expect(count == 250)
    #expect(seen == (0..<250).map { UInt8($0) })
    #expect(try admin.messageCount(queue: "admin.simple") == 0)
    admin.close()
  }

  @Test func whatIsKeptGoesBack() throws {
    let admin = try admin()
    try admin.perform(.declareQueue(name: "admin.kept", arguments: [quorum]))
    try admin.publish(to: defaultExchange, routingKey: "admin.kept", properties: AMQPProperties(), body: [1])
    try admin.waitForConfirms()
    for round in 0..<2 {
      var deliveryCount: UInt32 = 99
      _ = try admin.consume(queue: "admin.kept", limit: 1, idleMilliseconds: 5000) { message in
        deliveryCount = message.metadata.deliveryCount
        return .keep
      }
      #expect(deliveryCount == UInt32(round))
    }
    #expect(try admin.purge(queue: "admin.kept") <= 1)
    #expect(try admin.messageCount(queue: "admin.nowhere") == nil)
    // The client reopened the channel that the broker closed for that.
    #expect(try admin.messageCount(queue: "admin.kept") == 0)
    admin.close()
  }

  @Test func unroutableComesBack() throws {
    let admin = try admin()
    try admin.publish(to: defaultExchange, routingKey: "admin.nobody", properties: AMQPProperties(), body: [1, 2])
    try admin.waitForConfirms()
    #expect(admin.results.returned == 1)
    #expect(admin.results.confirmed == 0)
    admin.close()
  }

  @Test func fullQueueRefuses() throws {
    let admin = try admin()
    try admin.perform(
      .declareQueue(
        name: "admin.full",
        arguments: [
          AMQPArgument("x-max-length", .number(3)), AMQPArgument("x-overflow", .text("reject-publish")),
        ]))
    for _ in 0..<10 {
      try admin.publish(to: defaultExchange, routingKey: "admin.full", properties: AMQPProperties(), body: [1])
    }
    try admin.waitForConfirms()
    #expect(admin.results.confirmed + admin.results.refused == 10)
    #expect(admin.results.refused >= 6)
    admin.close()
  }

  @Test func tenMegabytes() throws {
    var options = AMQPOptions()
    options.bodyBytesMaximum = 16 << 20
    let admin = try admin(options)
    try admin.perform(.declareQueue(name: "admin.large", arguments: []))
    let body = (0..<10 << 20).map { UInt8(truncatingIfNeeded: $0 &* 31) }
    try admin.publish(to: defaultExchange, routingKey: "admin.large", properties: AMQPProperties(), body: body)
    try admin.waitForConfirms()
    var isSame = false
    try admin.consume(queue: "admin.large", limit: 1, idleMilliseconds: 20_000) { message in
      isSame = message.body == body
      return .requeue
    }
    #expect(isSame)
    admin.close()
    // Above the usual bound: the body is reported as too large, and not kept.
    let small = try self.admin()
    try small.consume(queue: "admin.large", limit: 1, idleMilliseconds: 20_000) { message in
      #expect(message.isOversized)
      #expect(message.body.isEmpty)
      return .acknowledge
    }
    small.close()
  }

  @Test func streamsFromTheirStart() throws {
    let admin = try admin()
    try admin.perform(
      .declareQueue(name: "admin.stream", arguments: [AMQPArgument("x-queue-type", .text("stream"))]))
    for index in 0..<300 {
      try admin.publish(
        to: defaultExchange, routingKey: "admin.stream", properties: AMQPProperties(), body: [UInt8(index & 255)])
    }
    try admin.waitForConfirms()
    for _ in 0..<2 {
      var bodies: [UInt8] = []
      let count = try admin.consume(
        queue: "admin.stream", offset: .first, prefetch: 50, limit: 300, idleMilliseconds: 5000
      ) { message in
        bodies.append(message.body[0])
        return .acknowledge
      }
      #expect(count == 300)
      #expect(bodies.first == 0 && bodies.last == UInt8(299 & 255))
    }
    admin.close()
  }

  @Test func aMismatchNamesTheArgument() throws {
    let admin = try admin()
    try admin.perform(
      .declareQueue(name: "admin.mismatch", arguments: [quorum, AMQPArgument("x-delivery-limit", .number(10))]))
    #expect {
      try admin.perform(
        .declareQueue(name: "admin.mismatch", arguments: [quorum, AMQPArgument("x-delivery-limit", .number(20))]))
    } throws: { error in
      guard let error = error as? AMQPError, case .mismatch(let mismatch) = error else { return false }
      return mismatch.name == "admin.mismatch" && mismatch.argument == "x-delivery-limit"
        && error.description.contains("20") && error.description.contains("10")
    }
    admin.close()
  }

  @Test func wrongPassword() throws {
    var address = try AMQPAddress(try RabbitMQServer.shared().url)
    address.password = "wrong-secret"
    #expect {
      try AMQPAdmin(patient: address)
    } throws: { error in
      guard let error = error as? AMQPError, case .accessRefused = error else { return false }
      return !error.description.contains("wrong-secret")
    }
  }

  @Test func anAddressThatDoesNotAnswerIsPassedOver() throws {
    let good = try AMQPAddress(try RabbitMQServer.shared().url)
    var bad = good
    bad.port = try LoopbackPort.free()
    let admin = try AMQPAdmin(addresses: [bad, good], tls: nil, name: "herald test")
    #expect(admin.address == good)
    admin.close()
  }
}
