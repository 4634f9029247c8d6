/// Shrinks a world with a violation to the fewest workers, faults and jobs that still cause it.
package final class WorkerShrinker {
  /// Worlds that were run so far.
  package private(set) var played = 0
  private let worldsMaximum: Int

  /// - Parameter worldsMaximum: the maximum of worlds to run.
  package init(worldsMaximum: Int = 400) {
    self.worldsMaximum = worldsMaximum
  }

  /// The smallest plan found, and its violations; the original plan if its world has none.
  package func shrink(_ plan: WorkerPlan) throws -> (plan: WorkerPlan, violations: [String]) {
    var best = plan
    var violations = try play(plan)
    guard let first = violations.first else { return (plan, []) }
    let kind = WorkerShrinker.kind(first)
    func attempt(_ candidate: WorkerPlan) throws -> Bool {
      guard played < worldsMaximum else { return false }
      // It must be the same violation.
      let found = try play(candidate).filter { WorkerShrinker.kind($0) == kind }
      if found.isEmpty { return false }
      best = candidate
      violations = found
      return true
    }
    var isSmaller = true
    while isSmaller, played < worldsMaximum {
      isSmaller = false
      for change in [WorkerShrinker.fewerLanes, WorkerShrinker.fewerWorkers, WorkerShrinker.plainNetwork] {
        if let candidate = change(best), try attempt(candidate) { isSmaller = true }
      }
      if try remove({ $0.faultNumbers }, { $0.keeping(faults: $1) }, from: { best }, attempt) { isSmaller = true }
      if try remove({ $0.audienceNumbers }, { $0.keeping(audiences: $1) }, from: { best }, attempt) { isSmaller = true }
      if try remove({ $0.jobNumbers }, { $0.keeping(jobs: $1) }, from: { best }, attempt) { isSmaller = true }
    }
    return (best, violations)
  }

  /// Removes halves, then quarters and so on, as long as the violation remains.
  private func remove(
    _ numbers: (WorkerPlan) -> [Int], _ keeping: (WorkerPlan, Set<Int>) -> WorkerPlan, from best: () -> WorkerPlan,
    _ attempt: (WorkerPlan) throws -> Bool
  ) throws -> Bool {
    var isSmaller = false
    var size = numbers(best()).count
    while size > 0 {
      var start = 0
      while start < numbers(best()).count {
        let left = numbers(best())
        let kept = Set(left[..<start] + left[min(start + size, left.count)...])
        if try attempt(keeping(best(), kept)) { isSmaller = true } else { start += size }
      }
      size /= 2
    }
    return isSmaller
  }

  private static func fewerLanes(_ plan: WorkerPlan) -> WorkerPlan? {
    guard plan.settings.lanes > 1 else { return nil }
    var plan = plan
    plan.settings.lanes = 1
    return plan
  }

  private static func fewerWorkers(_ plan: WorkerPlan) -> WorkerPlan? {
    guard plan.settings.workers > 1 else { return nil }
    var plan = plan
    plan.settings.workers -= 1
    return plan
  }

  /// Segments are not split.
  private static func plainNetwork(_ plan: WorkerPlan) -> WorkerPlan? {
    guard plan.settings.network.splits > 0 else { return nil }
    var plan = plan
    plan.settings.network.splits = 0
    return plan
  }

  /// The kind of violation, without its details.
  private static func kind(_ violation: String) -> String {
    String(violation.prefix { $0 != ":" }.filter { !$0.isNumber })
  }

  private func play(_ plan: WorkerPlan) throws -> [String] {
    played += 1
    let world = try WorkerWorld(plan)
    try world.run()
    return world.auditor.violations
  }
}
