import PushCore

/// Finds messages that RabbitMQ drops by its delivery limit although no worker could prevent it: each delivery
/// ended because the worker that held it was killed. Messages that were requeued, or whose connection was lost otherwise, do not count.
struct DeliveryLimitAuditor {
  /// Connections of workers that were killed.
  private var killed: Set<SimulatedConnectionID> = []
  /// The last receiver of a message, by message number.
  private var holders: [Int: SimulatedConnectionID] = [:]
  /// How many of its deliveries ended with a killed worker.
  private var deaths: [Int: Int] = [:]
  private var deliveryCounts: [Int: Int] = [:]
  private var taken: Set<Int> = []

  /// A worker was killed, and its connections end.
  mutating func killed(_ connections: [SimulatedConnectionID]) { killed.formUnion(connections) }

  /// Returns whether a queue stored a dead letter of such a message.
  mutating func happened(_ event: SimulatedRabbitMQEvent) -> Bool {
    switch event {
    case .delivered(_, let message, let delivery): holders[message.number] = delivery.connection
    case .requeued(_, let message, let count):
      deliveryCounts[message.number] = count
      if let holder = holders[message.number], killed.contains(holder) { deaths[message.number, default: 0] += 1 }
    case .died(_, let message, "delivery_limit", _):
      if let count = deaths[message.number], count == deliveryCounts[message.number] { taken.insert(message.number) }
    case .stored(_, let message): return message.origin != 0 && taken.contains(message.origin)
    default: break
    }
    return false
  }
}
