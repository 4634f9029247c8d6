import PushCore
import PushIO
import PushLane
import PushStores
import TestSupport
import Testing

/// What is published again says so: the broker may have kept the first copy.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct PublishedAgainTests {
  /// Its pages were fixed, and perhaps published, by a delivery that nobody finished.
  @Test func pagesOfAStepThatComesAgain_areMarked() throws {
    let world = try AudienceWorld("again")
    try world.registry.register(0..<1, user: { _ in "u" })
    try world.prepare("again", ordinals: [0])
    for id in ["again", "once"] { try world.publish(id, to: #"{"users":["u"]}"#) }
    try world.world.runUntilEmpty()
    for id in ["again", "once"] {
      #expect(try world.waitForEnd(of: id).summary == ["devices": 1, "accepted": 1])
      #expect(world.children(of: id).map(\.ambiguous) == [id == "again"])
    }
  }

  @Test func messageThatWasRefused_isDescribedAsRepeated() throws {
    let rabbitmq = try RabbitMQServer.shared()
    let address = try AMQPAddress(rabbitmq.url)
    let prefix = "published-again-\(UInt32.random(in: 0 ... .max))"
    let admin = try AMQPAdmin(addresses: [address], tls: nil, name: "herald test")
    defer { admin.close() }
    try admin.perform(
      .declareQueue(
        name: "\(prefix).full",
        arguments: [AMQPArgument("x-max-length", .number(0)), AMQPArgument("x-overflow", .text("reject-publish"))]))
    let loop = try EventLoop()
    let settings = RabbitMQSettings(
      addresses: [address], tls: nil, topology: Topology(prefix: prefix, retryDelaysSeconds: [1]), laneName: "test",
      prefetch: 2, randomSeed: 1)
    let publisher = ConfirmedPublisher(loop: loop, settings: settings) { _, _ in }
    defer {
      publisher.close()
      for _ in 0..<200 where !publisher.isClosed {
        loop.poll(maximumWaitMilliseconds: 5)
        publisher.turn()
        loop.flush()
      }
    }
    var areRepeated: [Bool] = []
    publisher.publish(
      [1],
      as: ConfirmedPublisher.Message(
        exchange: AMQPExchange("", isMandatory: true), routingKey: Array("\(prefix).full".utf8),
        describe: { areRepeated.append($1) }, then: { _ in }))
    for _ in 0..<4_000 where areRepeated.count < 4 {
      loop.poll(maximumWaitMilliseconds: 5)
      publisher.turn()
      loop.flush()
    }
    #expect(areRepeated == [false, true, true, true])
  }
}
