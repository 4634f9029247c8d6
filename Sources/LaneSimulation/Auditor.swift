/// Checks the promise from outside: it sees only what the broker kept and what APNs accepted, and shares no code with
/// the lane.
package final class Auditor {
  package private(set) var violations: [String] = []
  private var enqueued: Set<Target> = []
  /// Final outcomes that the broker keeps, by target.
  private var outcomes: [Target: [String]] = [:]
  private var accepted: [Target: Int] = [:]
  /// Targets of which an outcome says that an earlier attempt may have reached APNs; none need say so of what the producer
  /// published twice.
  package private(set) var marked: Set<Target> = []
  private var publishedTwice: Set<Target> = []
  /// How often a target had been accepted when its dead letter was replayed last.
  private var acceptedBefore: [Target: Int] = [:]
  /// Things that may make one more send or outcome of a target legal: a redelivery, an ambiguous loss, a repeated publish.
  private var excuses: [Target: Int] = [:]
  /// Retry copies that the broker keeps or has kept, by target.
  private var copies: [Target: Int] = [:]
  package private(set) var deadLetters: Set<String> = []

  package func enqueued(_ target: Target) { enqueued.insert(target) }

  package func excuse(_ target: Target) { excuses[target, default: 0] += 1 }

  package func brokerKeptOutcome(_ outcome: String, of target: Target, isAmbiguous: Bool) {
    outcomes[target, default: []].append(outcome)
    if isAmbiguous { marked.insert(target) }
  }

  /// The producer published it twice: each message is a job of its own, and says nothing of the other.
  package func publishedTwice(_ target: Target) {
    excuse(target)
    marked.insert(target)
    publishedTwice.insert(target)
  }

  /// Shared state forgot that it came twice: nothing needs to say so.
  package func forgive(_ target: Target) { marked.insert(target) }

  /// Its dead letter was put back as a job: one more end of it is legal, and one more send. Marks told so far do not speak
  /// for the copy: where APNs had accepted the target before and accepts it again, what is told from here on must say so.
  package func replayed(_ target: Target) {
    excuse(target)
    expectMarkOfRepetition(target)
    acceptedBefore[target] = accepted[target] ?? 0
    // Another copy of it that came to another end spoke for itself, and says nothing of this one.
    let hasOnlyFailed = outcomes[target, default: []].allSatisfy { $0 == "failed" }
    if hasOnlyFailed, !publishedTwice.contains(target) { marked.remove(target) }
  }

  private func expectMarkOfRepetition(_ target: Target) {
    let count = accepted[target] ?? 0
    guard count > 1, count > acceptedBefore[target] ?? 0, !marked.contains(target) else { return }
    violations.append("\(target) was accepted \(count) times, and no outcome says so")
  }

  package func brokerKeptCopy(of target: Target) { copies[target, default: 0] += 1 }

  package func brokerKeptDeadLetter(job: String) { deadLetters.insert(job) }

  /// The broker's own limit took a job away, and nobody tells what became of it.
  package func brokerGaveUp(_ targets: [Target]) {
    for target in targets { violations.append("taken away by the broker without an outcome: \(target)") }
  }

  /// The final outcomes that the broker keeps of a job's targets, all together.
  package func outcomes(ofJob job: String) -> [String] { outcomes.filter { $0.key.job == job }.flatMap(\.value) }

  package func apnsAccepted(_ target: Target) { accepted[target, default: 0] += 1 }

  /// The lane acknowledged a message: something that the broker keeps must stand for each of its targets.
  package func acknowledged(_ targets: [Target]) {
    for target in targets where outcomes[target] == nil && copies[target] == nil {
      violations.append("acknowledged before anything replaced it: \(target)")
    }
  }

  /// The lane named a delivery that it may not name.
  package func misnamedDelivery(_ what: String) { violations.append(what) }

  /// Everything is at rest: each target has its end, and nothing happened twice without a reason.
  package func finish() {
    for target in enqueued {
      let outcomes = outcomes[target] ?? []
      let allowed = 1 + (excuses[target] ?? 0)
      if outcomes.isEmpty { violations.append("lost: \(target)") }
      if outcomes.count > allowed { violations.append("\(outcomes.count) outcomes, \(allowed) explained: \(target)") }
      if (accepted[target] ?? 0) > allowed {
        violations.append("accepted \(accepted[target] ?? 0) times, \(allowed) explained: \(target)")
      }
      expectMarkOfRepetition(target)
      if outcomes.contains("accepted"), accepted[target] == nil {
        violations.append("an outcome says accepted, APNs does not: \(target)")
      }
    }
    for target in Set(outcomes.keys).subtracting(enqueued) { violations.append("an outcome of nobody: \(target)") }
  }
}
