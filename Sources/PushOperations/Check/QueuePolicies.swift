import Foundation
import PushIO
import PushLane

/// What RabbitMQ's policies, and the arguments of queues, do to Herald's messages: they delete, cut off and refuse what no worker has seen.
struct QueuePolicies {
  /// A value of a policy or argument.
  enum Value: Decodable, Equatable, CustomStringConvertible {
    case number(Int64)
    case text(String)
    case other

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let number = try? container.decode(Int64.self) {
        self = .number(number)
      } else {
        self = (try? container.decode(String.self)).map { .text($0) } ?? .other
      }
    }

    var description: String {
      switch self {
      case .number(let number): "\(number)"
      case .text(let text): text
      case .other: "?"
      }
    }

    /// Of `overflow`: what does not fit is refused.
    var refuses: Bool { if case .text(let text) = self { text.hasPrefix("reject-publish") } else { false } }
  }

  /// By name. RabbitMQ writes an empty one as `[]`, too.
  struct Values: Decodable {
    var all: [String: Value] = [:]

    init(_ all: [String: Value]) { self.all = all }

    init(from decoder: any Decoder) throws {
      all = (try? decoder.singleValueContainer().decode([String: Value].self)) ?? [:]
    }
  }

  struct Policy: Decodable {
    let name: String
    let pattern: String
    let target: String
    let priority: Int
    let definition: Values

    private enum CodingKeys: String, CodingKey {
      case name, pattern, priority, definition
      case target = "apply-to"
    }

    /// - Parameter type: `classic`, `quorum` or `stream`.
    func applies(to queue: String, type: String) -> Bool {
      let isOfType = ["all", "queues", "\(type)_queues", "\(type)s"].contains(target)
      return isOfType && (try? Regex(pattern)).map { queue.contains($0) } ?? false
    }
  }

  struct Queue: Decodable {
    let name: String
    let type: String
    let arguments: Values
  }

  struct Binding: Decodable {
    let source: String
    let destination: String
    let kind: String

    private enum CodingKeys: String, CodingKey {
      case source, destination
      case kind = "destination_type"
    }
  }

  /// What sets values of a queue, and what to do about it.
  private struct Source {
    let name: String
    let values: [String: Value]
    let remedy: String
  }

  static let keys = ["expires", "max-length", "max-length-bytes", "message-ttl", "overflow"]

  let topology: Topology
  let policies: [Policy]
  /// Of whoever runs the broker, beside the others.
  let operatorPolicies: [Policy]
  let queues: [Queue]
  let bindings: [Binding]

  /// A line for each policy or argument and key; those queues to which it does the same are in one.
  func warnings() -> [String] {
    var names: [String: [String]] = [:]
    var order: [String] = []
    func add(_ queue: String, _ text: String) {
      if names[text] == nil { order.append(text) }
      names[text, default: []].append(queue)
    }
    for (name, arguments) in ours {
      let declared = Dictionary(uniqueKeysWithValues: arguments.map { ($0.name, Value($0.value)) })
      let isStream = declared["x-queue-type"] == .text("stream")
      let sources = policies(of: name, type: isStream ? "stream" : "quorum")
      let refuses = (declared["x-overflow"].map { [$0] } ?? sources.compactMap { $0.values["overflow"] }).contains(
        where: \.refuses)
      for source in sources {
        for key in Self.keys {
          guard let value = source.values[key], changes(value, declared["x-" + key]),
            let effect = effect(of: key, value, on: name, refuses: refuses)
          else { continue }
          add(name, "\(source.name) sets \(key) \(value): \(effect); \(source.remedy)")
        }
      }
      for (key, value) in strangers(to: declared, in: queues.first { $0.name == name }) {
        add(name, "its argument x-\(key) is \(value): workers do not connect; delete the queue once it is empty")
      }
    }
    let readers = resultsQueues
    for queue in queues where readers.contains(queue.name) && queue.type != "stream" {
      // It comes before a policy.
      let own = queue.arguments.all["x-overflow"].map { [("its argument x-overflow", $0)] }
      let policies = policies(of: queue.name, type: queue.type)
        .compactMap { source in source.values["overflow"].map { (source.name, $0) } }
      for (name, value) in own ?? policies where value.refuses {
        add(
          queue.name,
          """
          \(name) sets overflow \(value): once it is full, outcomes wait in workers and hold up their jobs; let it drop its oldest \
          messages (overflow drop-head), or read \(topology.resultsLogQueue) instead
          """)
      }
    }
    return order.map { text in
      let queues = names[text] ?? []
      return "\(queues.joined(separator: ", ")): \(text)"
    }
  }

  /// A queue's own number stays where a policy's is larger, and its overflow always.
  private func changes(_ value: Value, _ declared: Value?) -> Bool {
    switch (value, declared) {
    case (.number(let value), .number(let declared)): value < declared
    case (_, nil): true
    default: false
    }
  }

  private func policies(of queue: String, type: String) -> [Source] {
    [(policies, "policy"), (operatorPolicies, "operator policy")].flatMap { list, kind in
      let applied = list.filter { $0.applies(to: queue, type: type) }
      // Of several with the same priority RabbitMQ takes any.
      let highest = applied.map(\.priority).max()
      return applied.filter { $0.priority == highest }.map {
        Source(
          name: "\(kind) \"\($0.name)\"", values: $0.definition.all, remedy: "change its pattern to leave the queue out"
        )
      }
    }
  }

  /// Arguments with which somebody else declared it.
  private func strangers(to declared: [String: Value], in queue: Queue?) -> [(key: String, value: Value)] {
    Self.keys.compactMap { key in
      guard let value = queue?.arguments.all["x-" + key], value != declared["x-" + key] else { return nil }
      return (key, value)
    }
  }

  private var ours: [(name: String, arguments: [AMQPArgument])] {
    topology.declarations.compactMap {
      if case .declareQueue(let name, let arguments) = $0 { (name, arguments) } else { nil }
    }
  }

  /// Those of others that get outcomes, also by way of other exchanges.
  private var resultsQueues: Set<String> {
    var (exchanges, isDone): (Set<String>, Bool) = ([topology.resultsExchange], false)
    while !isDone {
      let next = bindings.filter { $0.kind == "exchange" && exchanges.contains($0.source) }.map(\.destination)
      isDone = exchanges.isSuperset(of: next)
      exchanges.formUnion(next)
    }
    let queues = bindings.filter { $0.kind == "queue" && exchanges.contains($0.source) }.map(\.destination)
    return Set(queues).subtracting(ours.map(\.name))
  }

  /// What a policy's key does to what is in the queue; nil: nothing.
  private func effect(of key: String, _ value: Value, on queue: String, refuses: Bool) -> String? {
    if queue == topology.resultsLogQueue {
      // RabbitMQ ignores the others on a stream.
      return key == "max-length-bytes" ? "outcomes leave the log before results.log_max_bytes" : nil
    }
    let isRetry = topology.queue(ofRetry: queue) != queue
    switch key {
    case "expires":
      return isRetry || queue == topology.deadQueue
        ? "nothing consumes this queue, so RabbitMQ deletes it with all that waits in it"
        : "RabbitMQ deletes the queue with all that waits in it, once no worker has run for so long"
    case "overflow":
      return value.refuses ? "once a limit fills the queue, workers hold what it refuses" : nil
    case "message-ttl":
      return effectOfTime(on: queue, isRetry: isRetry)
    default:
      if refuses { return "once it is full it refuses, and what it refuses waits in workers and producers" }
      return "once it is full, RabbitMQ deletes its oldest messages"
    }
  }

  private func effectOfTime(on queue: String, isRetry: Bool) -> String {
    if isRetry { return "what waits here comes back before its time" }
    switch queue {
    case topology.deadQueue: return "dead letters are deleted after that time"
    case topology.undeliveredQueue, topology.lateQueue:
      return "what waits here longer becomes a dead letter, perhaps without an outcome"
    case topology.registrationsQueue: return "registrations that wait longer are lost"
    case topology.channelsQueue, topology.isolatedChannelsQueue:
      return "requests that wait longer are answered as unavailable"
    case _ where topology.workQueues.contains(queue): return "jobs that wait longer end as expired"
    default: return "audiences that wait longer go round by \(topology.undeliveredQueue), again and again"
    }
  }
}

extension QueuePolicies.Value {
  fileprivate init(_ value: AMQPArgument.Value) {
    switch value {
    case .number(let number): self = .number(number)
    case .text(let text): self = .text(text)
    case .flag, .timestamp: self = .other
    }
  }
}
