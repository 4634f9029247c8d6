import PushCore
import PushIO
import TestSupport
import Testing

@testable import PushLane

/// The life of one of a lane's connections.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct RabbitMQClientTests {
  /// A timer may fire while the connection closes: it must not use that connection, or the process would trap.
  @Test func itGivesOutAConnectionOnlyWhileItIsUp() throws {
    let loop = try EventLoop()
    let address = try AMQPAddress(RabbitMQServer.shared().url)
    let settings = RabbitMQSettings(
      addresses: [address], tls: nil, topology: Topology(prefix: "link", retryDelaysSeconds: [1], resultsLog: nil),
      laneName: "link/0", prefetch: 100, randomSeed: 1)
    let link = RabbitMQClient(
      loop: loop, role: .consumer, settings: settings, setUp: [(.openChannel, 1)], notice: { _, _ in })
    link.start()
    #expect(link.connection == nil)
    #expect(run(loop, link) { link.isUp })
    let number = try #require(link.connection).request(.prefetch(10), channel: 1)
    #expect(number == 2)
    link.stop()
    #expect(link.state == .closing)
    #expect(link.connection == nil)
    #expect(run(loop, link) { link.state == .idle })
    #expect(link.connection == nil)
  }

  /// RabbitMQ tells of an alarm only who publishes: a publisher with nothing to say asks.
  @Test func whoPublishesNothingIsToldOfAnAlarm() throws {
    let server = try RabbitMQServer()
    defer { server.stop() }
    let loop = try EventLoop()
    let topology = Topology(prefix: "link", retryDelaysSeconds: [1], resultsLog: nil)
    var settings = RabbitMQSettings(
      addresses: [try AMQPAddress(server.url)], tls: nil, topology: topology, laneName: "link/0", prefetch: 100,
      randomSeed: 1)
    settings.alarmProbeMilliseconds = 200
    let link = RabbitMQClient(
      loop: loop, role: .publisher, settings: settings,
      setUp: [(.openChannel, 1)] + topology.declarations.map { ($0, 1) }, notice: { _, _ in })
    link.start()
    #expect(run(loop, link) { link.isUp })
    #expect(link.blockedReason == nil)
    for _ in 0..<2 {
      try server.rabbitmqctl(["set_vm_memory_high_watermark", "absolute", "1MB"])
      #expect(run(loop, link) { link.blockedReason != nil })
      try server.rabbitmqctl(["set_vm_memory_high_watermark", "0.6"])
      #expect(run(loop, link) { link.blockedReason == nil })
    }
    #expect(link.isUp)
    link.stop()
    #expect(run(loop, link) { link.state == .idle })
  }

  private func run(_ loop: EventLoop, _ link: RabbitMQClient, until condition: () -> Bool) -> Bool {
    loop.poll(maximumWaitMilliseconds: 0)
    let start = loop.now.monotonic
    while loop.now.monotonic.milliseconds(since: start) < 30_000 {
      loop.poll(maximumWaitMilliseconds: 20)
      while link.nextEvent() != nil {}
      loop.flush()
      if condition() { return true }
    }
    return false
  }
}
