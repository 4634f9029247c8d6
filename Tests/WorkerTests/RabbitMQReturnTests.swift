import PushCore
import PushIO
import Testing

@testable import PushLane

/// Returned messages, among publishes that are not confirmed yet, and a channel that is stopped.
@Suite(.timeLimit(.minutes(1))) struct RabbitMQReturnTests {
  private struct Reported: Equatable {
    var confirmed: [UInt64] = []
    var refused: [UInt64] = []
  }

  private final class World {
    let loop: EventLoop
    let server: ScriptedRabbitMQ
    let broker: RabbitMQBroker
    private(set) var reported = Reported()
    private(set) var isPublishing = false

    init() throws {
      loop = try EventLoop()
      server = try ScriptedRabbitMQ(loop: loop)
      broker = RabbitMQBroker(
        loop: loop,
        settings: RabbitMQSettings(
          addresses: [try server.address], tls: nil, topology: Topology(prefix: "scripted", retryDelaysSeconds: [1]),
          laneName: "test/0", prefetch: 100, randomSeed: 1))
    }

    func run(until condition: (World) -> Bool) -> Bool {
      for _ in 0..<2_000 {
        loop.poll(maximumWaitMilliseconds: 5)
        while let event = broker.nextEvent(takesDeliveries: true) {
          switch event {
          case .publishing: isPublishing = true
          case .confirmed(let numbers): reported.confirmed.append(contentsOf: numbers)
          case .refused(let numbers): reported.refused.append(contentsOf: numbers)
          default: break
          }
        }
        loop.flush()
        if condition(self) { return true }
      }
      return false
    }

    /// The same job's retry copy: exchange, routing key and message id are those of any other copy of it.
    func publish() -> UInt64 {
      let state = RetryState(
        attempts: 1, firstSeen: 1, isAmbiguous: false, apnsID: UUIDValue(high: 1, low: 2), reason: nil)
      return broker.publishRetry([1], jobClass: .bulk, delaySeconds: 1, state: state, metadata: MessageMetadata())
    }
  }

  /// Two copies differ only in their number: the broker returns one, and exactly that one is published again.
  @Test(arguments: [0, 1]) func theOneThatCameBackIsRefused(_ lost: Int) throws {
    let world = try World()
    #expect(world.run { $0.isPublishing })
    let sequences = [world.publish(), world.publish()]
    #expect(world.run { $0.server.publishes.count == 2 })
    let published = world.server.publishes
    world.server.giveBack(published[lost])
    #expect(world.run { !$0.reported.refused.isEmpty })
    #expect(world.reported == Reported(confirmed: [], refused: [sequences[lost]]))
    world.server.confirm(published[lost], number: UInt64(lost + 1))
    world.server.confirm(published[1 - lost], number: UInt64(2 - lost))
    #expect(world.run { !$0.reported.confirmed.isEmpty })
    #expect(world.reported == Reported(confirmed: [sequences[1 - lost]], refused: [sequences[lost]]))
  }

  /// Nothing is published until the broker lets the channel go on; what is there is confirmed.
  @Test func aStoppedChannel_takesNothing() throws {
    let world = try World()
    #expect(world.run { $0.isPublishing })
    let sequence = world.publish()
    #expect(world.run { $0.server.publishes.count == 1 })
    let published = world.server.publishes[0]
    world.server.flow(published, isActive: false)
    #expect(world.run { !$0.broker.canPublish })
    world.server.confirm(published, number: 1)
    #expect(world.run { $0.reported.confirmed == [sequence] } && !world.broker.canPublish)
    world.server.flow(published, isActive: true)
    #expect(world.run { $0.broker.canPublish })
  }

  /// One confirm for many covers returned publishes too: they are reported, and their numbers are settled.
  @Test func aConfirmOfManyBehindAReturn() throws {
    let world = try World()
    #expect(world.run { $0.isPublishing })
    let sequences = (0..<3).map { _ in world.publish() }
    #expect(world.run { $0.server.publishes.count == 3 })
    let published = world.server.publishes
    world.server.giveBack(published[1])
    world.server.confirm(published[2], number: 3, isMultiple: true)
    #expect(world.run { !$0.reported.confirmed.isEmpty })
    #expect(world.reported == Reported(confirmed: [1, 2, 3], refused: [sequences[1]]))
    #expect(world.broker.returned.isEmpty)
  }
}
