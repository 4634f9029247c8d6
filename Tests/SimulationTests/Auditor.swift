import Testing

/// Checks the promise from outside: it sees only what the broker kept and what APNs accepted, and shares no code with
/// the lane.
final class Auditor {
  private(set) var violations: [String] = []
  private var enqueued: Set<Target> = []
  /// Final outcomes that the broker keeps, by target.
  private var outcomes: [Target: [String]] = [:]
  private var accepted: [Target: Int] = [:]
  /// Things that may make one more send or outcome of a target legal: a redelivery, an ambiguous loss, a repeated publish.
  private var excuses: [Target: Int] = [:]
  /// Retry copies that the broker keeps or has kept, by target.
  private var copies: [Target: Int] = [:]
  private(set) var deadLetters: Set<String> = []

  func enqueued(_ target: Target) { enqueued.insert(target) }

  func excuse(_ target: Target) { excuses[target, default: 0] += 1 }

  func brokerKeptOutcome(_ outcome: String, of target: Target) { outcomes[target, default: []].append(outcome) }

  func brokerKeptCopy(of target: Target) { copies[target, default: 0] += 1 }

  func brokerKeptDeadLetter(job: String) { deadLetters.insert(job) }

  /// The broker's own limit took a job away, and nobody tells what became of it.
  func brokerGaveUp(_ targets: [Target]) {
    for target in targets { violations.append("taken away by the broker without an outcome: \(target)") }
  }

  /// The final outcomes that the broker keeps of a job's targets, all together.
  func outcomes(ofJob job: String) -> [String] { outcomes.filter { $0.key.job == job }.flatMap(\.value) }

  func apnsAccepted(_ target: Target) { accepted[target, default: 0] += 1 }

  /// The lane acknowledged a message: something that the broker keeps must stand for each of its targets.
  func acknowledged(_ targets: [Target]) {
    for target in targets where outcomes[target] == nil && copies[target] == nil {
      violations.append("acknowledged before anything replaced it: \(target)")
    }
  }

  /// The lane named a delivery that it may not name.
  func misnamedDelivery(_ what: String) { violations.append(what) }

  /// Everything is at rest: each target has its end, and nothing happened twice without a reason.
  func finish() {
    for target in enqueued {
      let outcomes = outcomes[target] ?? []
      let allowed = 1 + (excuses[target] ?? 0)
      if outcomes.isEmpty { violations.append("lost: \(target)") }
      if outcomes.count > allowed { violations.append("\(outcomes.count) outcomes, \(allowed) explained: \(target)") }
      if (accepted[target] ?? 0) > allowed {
        violations.append("accepted \(accepted[target] ?? 0) times, \(allowed) explained: \(target)")
      }
      if outcomes.contains("accepted"), accepted[target] == nil {
        violations.append("an outcome says accepted, APNs does not: \(target)")
      }
    }
    for target in Set(outcomes.keys).subtracting(enqueued) { violations.append("an outcome of nobody: \(target)") }
  }
}
