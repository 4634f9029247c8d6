import PushCore

/// The books of a world, kept from outside: what producers were confirmed, what RabbitMQ keeps, what APNs accepted. It shares no code
/// with the workers.
package final class WorkerAuditor {
  package var violations: [String] = []
  private var jobs: [String: SimulatedJob] = [:]
  private var order: [String] = []
  private var outcomes: [String: [(outcome: String, isAmbiguous: Bool)]] = [:]
  /// Jobs of which Redis may have forgotten something.
  private var forgotten: Set<String> = []

  /// How many jobs have an outcome.
  package var toldCount: Int { outcomes.count }
  package var publishedCount: Int { order.count }
  /// Outcomes that say that an attempt before may have reached APNs.
  package private(set) var ambiguousCount = 0
  /// Jobs that APNs accepted more than once.
  package private(set) var repeatedCount = 0

  func published(_ job: SimulatedJob) {
    if jobs.updateValue(job, forKey: job.id) == nil { order.append(job.id) }
  }

  /// Redis lost its memory: what it knew may be sent again, unmarked. What is published from now on it knows.
  func storeEmptied() { forgotten.formUnion(order) }

  /// Every job has an outcome.
  var isComplete: Bool { outcomes.count >= jobs.count }

  func happened(_ event: SimulatedRabbitMQEvent) {
    guard case .stored(let queue, let message) = event, queue.hasSuffix(".results.log") else { return }
    let body = String(decoding: message.body, as: UTF8.self)
    guard let id = WorkerAuditor.text("job_id", in: body), let outcome = WorkerAuditor.text("outcome", in: body) else {
      violations.append("an outcome without a name: \(body.prefix(80))")
      return
    }
    let isAmbiguous = body.contains("\"ambiguous\":true")
    if isAmbiguous { ambiguousCount += 1 }
    outcomes[id, default: []].append((outcome, isAmbiguous))
  }

  private static func text(_ name: String, in body: String) -> String? {
    guard let range = body.firstRange(of: "\"\(name)\":\"") else { return nil }
    return String(body[range.upperBound...].prefix { $0 != "\"" })
  }

  /// Everything is over.
  func finish(acceptances: (String) -> Int) {
    for id in order {
      let told = outcomes[id] ?? []
      let count = acceptances(id)
      if count > 1 { repeatedCount += 1 }
      if told.isEmpty {
        violations.append("lost: \(id), accepted \(count) times")
        continue
      }
      let isMarked = told.contains(where: \.isAmbiguous) || forgotten.contains(id)
      if count > 1, !isMarked { violations.append("accepted \(count) times, unmarked: \(id)") }
      if Set(told.map(\.outcome)).count > 1, !isMarked {
        violations.append("two fates, unmarked: \(id): \(told.map(\.outcome))")
      }
      if told.contains(where: { $0.outcome == "accepted" }), count == 0 {
        violations.append("told as accepted, unknown to APNs: \(id)")
      }
    }
    for id in outcomes.keys.sorted() where jobs[id] == nil { violations.append("an outcome of nobody: \(id)") }
  }
}

extension SimulatedRabbitMQEvent {
  /// A line of the trace.
  var line: String {
    func name(_ message: RabbitMessage) -> String {
      let body = String(decoding: message.body, as: UTF8.self)
      let id = body.firstRange(of: "00000000-0000-4000-8000-").map {
        body[$0.upperBound...].prefix(12).drop { $0 == "0" }
      }
      return "message \(message.number), job \(id ?? "?")"
    }
    switch self {
    case .stored(let queue, let message): return "broker stored in \(queue): \(name(message))"
    case .confirmed(let connection, let channel, let number, let message):
      return "broker confirmed \(connection)/\(channel) \(number): \(name(message))"
    case .refused(let connection, let channel, let number, let message):
      return "broker refused \(connection)/\(channel) \(number): \(name(message))"
    case .returned(let connection, let channel, let message):
      return "broker returned \(connection)/\(channel): \(name(message))"
    case .delivered(let queue, let message, let delivery):
      return "broker gave from \(queue): \(name(message)) \(delivery)"
    case .acknowledged(let queue, let message): return "worker acknowledged from \(queue): \(name(message))"
    case .rejected(let queue, let message): return "worker rejected from \(queue): \(name(message))"
    case .requeued(let queue, let message, let count): return "broker took back to \(queue): \(name(message)), \(count)"
    case .died(let queue, let message, let reason, let isGone):
      return "died in \(queue) (\(reason)\(isGone ? ", gone" : "")): \(name(message))"
    case .deadLettered(let queue, let message, let copy, let to):
      return "broker handed on from \(queue) to \(to): \(name(message)) as \(copy.number)"
    case .lost(let queue, let message): return "broker lost from \(queue): \(name(message))"
    case .purged(let queue, let count): return "broker purged \(queue): \(count)"
    }
  }
}

/// A job of the simulated world.
package struct SimulatedJob {
  package let id: String
  let routingKey: String
  let body: String

  init(number: Int, random: inout SeededRandom) {
    let digits = String(number, radix: 16)
    let tail = String(repeating: "0", count: 12 - digits.count) + digits
    id = "00000000-0000-4000-8000-\(tail)"
    let device = String(random.next() % 50, radix: 16)
    let token = "aa" + String(repeating: "0", count: 62 - device.count) + device
    routingKey = random.next() % 4 == 0 ? "bulk" : "transactional"
    body = """
      {"version":1,"id":"\(id)","app":"com.example.app","push_type":"alert","to":{"token":"\(token)"},\
      "payload":{"aps":{"alert":"hello \(number)"}}}
      """
  }
}
