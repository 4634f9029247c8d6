import PushIO
import Testing

@testable import WorkerSimulation

/// Which messages the auditor excuses where RabbitMQ drops them by its delivery limit.
struct DeliveryLimitAuditorTests {
  /// A broker that sends what it is told to.
  private final class Peer: SimulatedPeer {
    var actions: [SimulatedPeerAction] = []
    var deadline: Int64? { nil }
    func opened(_ connection: SimulatedConnectionID, now: Int64) {}
    func received(_ bytes: [UInt8], on connection: SimulatedConnectionID, now: Int64) {}
    func ended(_ connection: SimulatedConnectionID, isReset: Bool, now: Int64) {}
    func woke(now: Int64) {}
    func nextAction() -> SimulatedPeerAction? { actions.isEmpty ? nil : actions.removeFirst() }
  }

  /// How a delivery ends.
  private enum End { case killed, lostBefore, lostAfter }

  private let network = SimulatedNetwork(seed: 1)
  private let peer = Peer()
  private let kernel: SimulatedKernel
  private let message = RabbitMessage(
    number: 1, origin: 0, exchange: [], routingKey: [], properties: [], body: [], lifetime: nil, atRiskUntil: .min)

  init() {
    kernel = SimulatedKernel(network, wallClockMilliseconds: 0)
    network.listen(5672, peer)
  }

  /// Whether it excuses a message whose deliveries ended so, the last of them at the limit.
  private func excuses(_ ends: [End]) throws -> Bool {
    var auditor = DeliveryLimitAuditor(network)
    let address = try #require(SocketAddress(numericHost: "127.0.0.1", port: 5672))
    for (index, end) in ends.enumerated() {
      _ = kernel.connect(kernel.makeSocket(for: address), to: address)
      let connection = try #require(network.lines.last).id
      network.advance(to: network.now + 100_000_000)
      let delivery = SimulatedRabbitMQDelivery(
        connection: connection, channel: 1, consumerTag: [], tag: 1, isRedelivered: index > 0, deliveryCount: index)
      _ = auditor.observe(.delivered(queue: "jobs", message: message, delivery: delivery))
      peer.actions.append(.send(connection, [1, 2, 3]))
      network.act(peer)
      switch end {
      case .killed: auditor.killed([connection])
      case .lostBefore: break
      case .lostAfter: network.advance(to: network.now + 100_000_000)
      }
      let isLast = index == ends.count - 1
      _ = auditor.observe(
        isLast
          ? .died(queue: "jobs", message: message, reason: "delivery_limit", isGone: false)
          : .requeued(queue: "jobs", message: message, deliveryCount: index + 1))
    }
    let letter = RabbitMessage(
      number: 2, origin: 1, exchange: [], routingKey: [], properties: [], body: [], lifetime: nil, atRiskUntil: .min)
    return auditor.observe(.stored(queue: "dead", message: letter))
  }

  @Test func onlyWhatNoWorkerCouldPreventIsExcused() throws {
    #expect(try excuses([.killed, .killed, .killed]))
    #expect(try excuses([.killed, .lostBefore, .killed]))
    #expect(try excuses([.lostBefore, .killed, .lostBefore]))
    #expect(try !excuses([.killed, .lostAfter, .killed]), "the worker had the job, and could isolate it")
    #expect(try !excuses([.killed, .killed, .lostAfter]), "the last delivery counts too")
  }
}
