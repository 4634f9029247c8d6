import APNsSimulator
import Foundation
import PushCore

/// Audits a world with forged messages: whatever arrives, workers go on, and what they publish is valid JSON and valid UTF-8.
package final class ForgeryAuditor {
  package private(set) var violations: [String] = []
  /// Outcomes and answers about forged messages.
  package private(set) var answeredCount = 0
  /// Forged messages among the dead letters.
  package private(set) var deadCount = 0

  /// Returns whether the event is about a forged message alone, and no other auditor's.
  func observe(_ event: SimulatedRabbitMQEvent) -> Bool {
    guard case .stored(let queue, let message) = event else { return false }
    if queue.hasSuffix(".results.log") {
      check("a result", message.body)
      guard let result = try? JSONSerialization.jsonObject(with: Data(message.body)) as? [String: Any] else {
        violations.append("a result that is no JSON object: \(String(decoding: message.body, as: UTF8.self))")
        return true
      }
      guard isForged(result["job_id"] ?? result["id"]) else { return false }
      answeredCount += 1
      return true
    }
    if queue.hasSuffix(".dead"), let headers = RabbitProperties(message.properties)?.headers {
      for name in ["x-herald-reason", "x-herald-detail", "x-herald-class", "traceparent", "tracestate"] {
        if let text = headers[name]?.text, message.origin == 0 { check("the header \(name) of a dead letter", text) }
      }
      if message.body.starts(with: Array("{\"version\":1,\"id\":\"\(ForgedMessage.mark)".utf8)) { deadCount += 1 }
    }
    return false
  }

  func endedByItself(_ worker: SimulatedWorker) { violations.append("\(worker.name) ended by itself") }

  /// `apns-id`s that no honest job has.
  func apnsIDs(_ ledger: Ledger) -> Set<String> {
    Set(ledger.entries.map(\.apnsID).filter { !$0.hasPrefix(SimulatedJob.idPrefix) })
  }

  /// Absent and null count as forged too: no honest message lacks its id.
  private func isForged(_ id: Any?) -> Bool { (id as? String)?.hasPrefix(ForgedMessage.mark) ?? true }

  private func check(_ what: String, _ bytes: [UInt8]) {
    guard String(validating: bytes, as: UTF8.self) == nil else { return }
    violations.append("\(what) that is not UTF-8: \(String(decoding: bytes, as: UTF8.self))")
  }
}

extension WorkerWorld {
  /// Publishes a forged message.
  func forge(_ number: Int) {
    var random = SeededRandom(seed: plan.seed &* 0x9E37_79B9_7F4A_7C15 &+ UInt64(number))
    let message = ForgedMessage(
      number: number, mayBeLarge: settings.network.carriesLargeBodies, random: &random)
    let count = rabbitmq.publish(
      exchange: message.exchange, routingKey: message.routingKey, properties: message.properties, body: message.body,
      now: network.now)
    network.act(rabbitmq)
    // No worker has declared the queues yet.
    guard count > 0 else { return schedule(.forge(number), at: network.now + 500_000_000) }
    note("forged \(number) for \(message.exchange)/\(message.routingKey): \(message.properties)")
  }
}
