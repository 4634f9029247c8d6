import PushCore

/// Finds messages that RabbitMQ drops by its delivery limit although no worker could prevent it: each delivery ended because its worker was
/// killed, or because its connection was lost before any byte of the delivery arrived. Every other end of a delivery is the worker's to
/// survive: a connection that is lost later, a message that is requeued.
struct DeliveryLimitAuditor {
  /// The last delivery of a message.
  private struct Holder {
    let connection: SimulatedConnectionID
    /// Bytes that the broker sent on this connection before the delivery.
    let sentBefore: Int
  }

  private let network: SimulatedNetwork
  /// Connections of workers that were killed.
  private var killed: Set<SimulatedConnectionID> = []
  /// By message number.
  private var holders: [Int: Holder] = [:]
  /// How many deliveries of a message, by its number, ended beyond any worker's help.
  private var helpless: [Int: Int] = [:]
  private var deliveryCounts: [Int: Int] = [:]
  private var taken: Set<Int> = []

  init(_ network: SimulatedNetwork) { self.network = network }

  /// A worker was killed, and its connections end.
  mutating func killed(_ connections: [SimulatedConnectionID]) { killed.formUnion(connections) }

  /// Returns whether a queue stored a dead letter of such a message.
  mutating func observe(_ event: SimulatedRabbitMQEvent) -> Bool {
    switch event {
    case .delivered(_, let message, let delivery):
      let end = network.line(delivery.connection)?.ends[0]
      holders[message.number] = Holder(connection: delivery.connection, sentBefore: end?.sentCount ?? .min)
    case .requeued(_, let message, let count):
      deliveryCounts[message.number] = count
      if isHelpless(message) { helpless[message.number, default: 0] += 1 }
    case .died(_, let message, "delivery_limit", _):
      let count = deliveryCounts[message.number] ?? 0
      if helpless[message.number] == count, isHelpless(message) { taken.insert(message.number) }
    case .stored(_, let message): return message.origin != 0 && taken.contains(message.origin)
    default: break
    }
    return false
  }

  /// No worker could do anything about the end of its last delivery, which is now.
  private func isHelpless(_ message: RabbitMessage) -> Bool {
    guard let holder = holders[message.number] else { return false }
    if killed.contains(holder.connection) { return true }
    guard let end = network.line(holder.connection)?.ends[0] else { return false }
    return end.arrivedCount <= holder.sentBefore
  }
}
