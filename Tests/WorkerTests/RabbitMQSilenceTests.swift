import PushCore
import PushIO
import Synchronization
import TestSupport
import Testing

@testable import PushLane

/// A broker that opens connections and then does not answer.
@Suite(.timeLimit(.minutes(1))) struct RabbitMQSilenceTests {
  @Test func aSetUpWithoutAnAnswerIsGivenUpAndBegunAnew() throws {
    let loop = try EventLoop()
    let server = try ScriptedRabbitMQ(loop: loop)
    server.answersOnChannels = false
    var settings = RabbitMQSettings(
      addresses: [try server.address], tls: nil, topology: Topology(prefix: "silent", retryDelaysSeconds: [1]),
      laneName: "test/0", prefetch: 100, randomSeed: 1)
    settings.setUpMilliseconds = 100
    settings.reconnectInitialMilliseconds = 20
    settings.reconnectMaximumMilliseconds = 50
    let broker = RabbitMQBroker(loop: loop, settings: settings)
    var notices: [String] = []
    var events: [String] = []
    func run(until condition: () -> Bool) -> Bool {
      for _ in 0..<2_000 {
        loop.poll(maximumWaitMilliseconds: 5)
        while let event = broker.nextEvent(takesDeliveries: true) { events.append("\(event)") }
        notices += broker.takeNotices().map(\.text)
        loop.flush()
        if condition() { return true }
      }
      return false
    }
    #expect(run { server.connectionCount >= 4 }, "\(server.connectionCount) connections")
    #expect(notices.contains { $0.contains("did not answer the set-up of a connection within 100 ms") }, "\(notices)")
    #expect(events.isEmpty)
    server.answersOnChannels = true
    #expect(run { events.contains("publishing") && events.contains { $0.hasPrefix("consuming") } }, "\(events)")
    #expect(!broker.isClosed && broker.canPublish)
  }

  /// The same for commands, which wait on a thread of their own.
  @Test func aQuestionOrAConfirmThatNeverComesEndsACommand() throws {
    let silent = try BrokerThread(answersOnChannels: false)
    let asking = try AMQPAdmin(addresses: [silent.address], tls: nil, name: "test")
    asking.answerMilliseconds = 50
    let unanswered = #expect(throws: AMQPError.self) { try asking.perform(.inspectQueue(name: "q")) }
    guard case .timedOut(_, 50) = unanswered else {
      Issue.record("\(String(describing: unanswered))")
      return
    }
    let unconfirming = try BrokerThread(answersOnChannels: true)
    let publishing = try AMQPAdmin(addresses: [unconfirming.address], tls: nil, name: "test")
    publishing.settleMilliseconds = 50
    func publish() throws {
      try publishing.publish(
        to: AMQPExchange("jobs", isMandatory: true), routingKey: "bulk", properties: AMQPProperties(), body: [1])
    }
    try publish()
    let one = #expect(throws: AMQPError.self) { try publishing.waitForConfirms() }
    #expect(one?.description == "RabbitMQ did not answer 1 publishes within 50 ms")
    for _ in 1..<AMQPAdmin.windowCount { try publish() }
    let full = #expect(throws: AMQPError.self) { try publish() }
    #expect(full?.description == "RabbitMQ did not answer 1000 publishes within 50 ms")
  }
}

/// A scripted broker on a thread of its own; it confirms nothing.
private final class BrokerThread: Sendable {
  private final class Shared: Sendable {
    let address = Mutex<AMQPAddress?>(nil)
    let isOver = Atomic(false)
  }

  let address: AMQPAddress
  private let shared: Shared
  private let thread: LoopThread

  init(answersOnChannels: Bool) throws {
    let shared = Shared()
    thread = LoopThread(name: "broker") {
      guard let loop = try? EventLoop(), let server = try? ScriptedRabbitMQ(loop: loop) else { return }
      server.answersOnChannels = answersOnChannels
      shared.address.withLock { $0 = try? server.address }
      while !shared.isOver.load(ordering: .acquiring) {
        loop.poll(maximumWaitMilliseconds: 5)
        loop.flush()
      }
    }
    self.shared = shared
    let reported = ChildProcess.poll(timeoutMilliseconds: 10_000) { shared.address.withLock { $0 } }
    guard let reported else { throw TestFailure("the scripted broker did not start") }
    address = reported
  }

  deinit {
    shared.isOver.store(true, ordering: .releasing)
    thread.join()
  }
}
