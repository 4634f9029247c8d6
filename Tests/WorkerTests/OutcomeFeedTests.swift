import PushCore
import PushIO
import PushSettings
import Testing

@testable import PushOperations

/// Readers of outcomes that leave before RabbitMQ has opened their channels.
@Suite(.timeLimit(.minutes(1))) struct OutcomeFeedTests {
  private final class World {
    let loop: EventLoop
    let server: ScriptedRabbitMQ
    let feed: OutcomeFeed
    /// Of each reader, in order: nil: it has not begun.
    private(set) var begun: [Bool] = []
    private(set) var refusedForApp = 0

    init() throws {
      loop = try EventLoop()
      server = try ScriptedRabbitMQ(loop: loop)
      let configuration = try ConfigurationLoader.load(
        file: nil, environment: ["HERALD_RABBITMQ_URL": "amqp://guest:guest@127.0.0.1:\(try server.address.port)/"])
      feed = OutcomeFeed(loop: loop, settings: try GatewaySettings(configuration)) { _, _ in }
    }

    func add(app: String = "com.example.app", key: String = "k") throws -> OutcomeReader {
      let (events, number) = (OutcomeReader(), begun.count)
      begun.append(false)
      let scope = try #require(AppScope(app: app, environment: .production))
      feed.add(
        OutcomeFeed.Reader(scope: scope, after: nil, key: key, events: events) { [unowned self] refusal in
          begun[number] = refusal == nil
          if case .tooManyOfApp = refusal { refusedForApp += 1 }
        })
      return events
    }

    func run(until condition: (World) -> Bool) -> Bool {
      for _ in 0..<1_000 {
        loop.poll(maximumWaitMilliseconds: 5)
        feed.turn()
        loop.flush()
        if condition(self) { return true }
      }
      return false
    }
  }

  @Test func aChannelThatIsBeingOpenedIsNotOpenedAgain() throws {
    let world = try World()
    _ = try world.add()
    #expect(world.run { $0.begun == [true] })
    // RabbitMQ has not answered yet when each of these leaves.
    for _ in 0..<3 { world.feed.remove(try world.add()) }
    #expect(world.feed.readerCount == 4, "their channels are being closed")
    _ = try world.add()
    #expect(world.run { $0.begun.last == true && $0.feed.readerCount == 2 })
    #expect(world.begun == [true, false, false, false, true])
    _ = try world.add()
    #expect(world.run { $0.begun.last == true }, "the numbers of the closed channels are free")
  }

  /// Many keys of one app take not all room: another app's only reader finds some, and those that end make room again.
  @Test func anAppLeavesReadersToOthers() throws {
    let world = try World()
    let all = try (0..<100).map { try world.add(key: "k\($0 / 10)") }
    #expect(world.run { $0.begun.count(where: \.self) == 75 })
    #expect(world.refusedForApp == 25)
    for app in ["com.example.one", "com.example.two"] {
      _ = try world.add(app: app)
      #expect(world.run { $0.begun.last == true }, "\(app)")
    }
    world.feed.remove(all[0])
    #expect(world.run { $0.feed.readerCount == 76 })
    _ = try world.add(app: "com.example.one")
    #expect(world.run { $0.begun.last == true })
  }

  /// It stands still: what waits for it is given up, and others come.
  @Test func aSilentBrokerOpensNoChannelTwice() throws {
    let world = try World()
    _ = try world.add()
    #expect(world.run { $0.begun == [true] })
    world.server.answersOnChannels = false
    for _ in 0..<3 {
      world.feed.remove(try world.add())
      _ = world.run { _ in true }
    }
    #expect(world.feed.readerCount == 4)
    #expect(world.begun == [true, false, false, false])
  }
}
