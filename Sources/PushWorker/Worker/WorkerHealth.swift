package import PushLane

/// What the lanes' states mean for probes.
package enum WorkerHealth {
  /// A lane's state.
  package struct Lane: Sendable {
    package var name: String
    /// nil: it does not answer.
    package var report: LaneReport?
    /// It ended in order.
    package var isDone: Bool

    package init(name: String, report: LaneReport?, isDone: Bool = false) {
      self.name = name
      self.report = report
      self.isDone = isDone
    }
  }

  /// The names of lanes whose loop does not turn. A lane that has drained and ended has no loop.
  package static func stalled(_ lanes: [Lane]) -> [String] {
    lanes.filter { $0.report == nil && !$0.isDone }.map(\.name)
  }

  /// Why lanes cannot work, a line each. A broker's alarm is not included: it concerns every worker, and has a metric of its own.
  package static func problems(_ lanes: [Lane]) -> [String] {
    lanes.flatMap { lane -> [String] in
      guard let report = lane.report else { return ["lane \(lane.name) does not answer"] }
      var problems: [String] = []
      if !report.isConsuming { problems.append("lane \(lane.name) is not consuming from RabbitMQ") }
      if report.isConsuming, report.rabbitmqConnected.contains(where: { $0.role == "publisher" && !$0.isConnected }) {
        problems.append("lane \(lane.name) is not connected to RabbitMQ for publishing")
      }
      problems += report.refusing.map { "lane \(lane.name): \($0.problem)" }
      if let standstill = report.standstill {
        let cause = standstill.isRefused ? "; the broker refuses what is published" : ""
        problems.append(
          "lane \(lane.name) stands still: nothing was settled for \(standstill.seconds) s, "
            + "and the oldest of \(report.jobsInFlight) jobs is at \"\(standstill.step)\"\(cause)")
      }
      return problems
    }
  }
}
