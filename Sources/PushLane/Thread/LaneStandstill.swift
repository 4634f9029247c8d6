import Logging
package import PushCore

/// A lane's standstills, as `StandstillState` decides: for the log, reports and metrics.
package struct LaneStandstill: Sendable {
  private var state: StandstillState
  private var restarts: [UInt64] = Array(repeating: 0, count: DeliveryStep.allCases.count)

  package init(settings: StandstillState.Settings = StandstillState.Settings()) {
    state = StandstillState(settings: settings)
  }

  /// What to log, and the step at which to restart; called once a second.
  package mutating func turn(
    _ look: StandstillState.Look, now: Instant
  ) -> (notice: LaneNotice?, restart: DeliveryStep?) {
    let seconds = state.standingMilliseconds(now: now) / 1000
    switch state.turn(look, now: now) {
    case .none:
      return (nil, nil)
    case .alarm(let step):
      let cause = look.hold == .refused ? "; the broker refuses what is published" : ""
      return (
        notice(
          .error, "stands still: nothing was settled for \(seconds) s, and the oldest job is at \"\(step)\"\(cause)",
          step,
          look), nil
      )
    case .restart(let step):
      restarts[step.rawValue] += 1
      return (
        notice(
          .error,
          "stood still for \(seconds) s: its connections are made anew, and the broker gives its jobs to whoever is free",
          step, look), step
      )
    case .recovered:
      return (LaneNotice(.notice, "standstill", "moves again after \(seconds) s"), nil)
    }
  }

  /// Adds the lane's standstill state.
  package func describe(_ look: StandstillState.Look, _ now: Instant, _ report: inout LaneReport) {
    for step in DeliveryStep.allCases {
      guard let received = look.oldest[step.rawValue] else { continue }
      report.oldestSeconds[step.rawValue] = Double(max(0, now.milliseconds(since: received))) / 1000
    }
    report.restarts = restarts
    guard state.isStanding, look.inFlight > 0 else { return }
    report.standstill = LaneReport.Standstill(
      step: look.oldestStep ?? .unstarted, seconds: state.standingMilliseconds(now: now) / 1000,
      isRefused: look.hold == .refused)
  }

  private func notice(
    _ level: Logger.Level, _ text: String, _ step: DeliveryStep, _ look: StandstillState.Look
  ) -> LaneNotice {
    LaneNotice(
      level, "standstill", text,
      ["step": "\(step.label)", "jobs_in_flight": .stringConvertible(look.inFlight)])
  }
}
