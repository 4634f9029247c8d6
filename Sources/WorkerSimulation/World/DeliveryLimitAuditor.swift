import PushCore

/// Finds the messages that RabbitMQ takes away by its limit of deliveries although no worker could help it: each one of their deliveries
/// ended with the worker that held it. One that was given back, or whose connection was lost in another way, is no such message.
struct DeliveryLimitAuditor {
  /// Of workers that were killed.
  private var killed: Set<SimulatedConnectionID> = []
  /// Where a message went, by its number.
  private var holders: [Int: SimulatedConnectionID] = [:]
  /// How many of its deliveries ended with their worker.
  private var deaths: [Int: Int] = [:]
  private var deliveryCounts: [Int: Int] = [:]
  private var taken: Set<Int> = []

  /// A worker is killed: its connections end.
  mutating func killed(_ connections: [SimulatedConnectionID]) { killed.formUnion(connections) }

  /// Returns whether a queue got a dead letter of such a message.
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
