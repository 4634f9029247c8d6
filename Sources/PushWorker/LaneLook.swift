package import PushCore

/// What a lane is about, at which step its jobs are, and what keeps it: `StandstillState` judges by it.
extension Lane {
  /// A refusal is news for so long: the lane publishes again after `refusedPauseMilliseconds`.
  private static var refusedMilliseconds: Int64 { 5_000 }

  /// Looks at every slot: for once a second, and for who asks for a report.
  package func look() -> StandstillState.Look {
    var look = StandstillState.Look(settled: counters.settled, inFlight: jobs.count, hold: hold)
    guard jobs.count > 0 else { return look }
    for index in 0..<jobs.capacity {
      guard let job = jobs.liveTicket(at: index), jobs[job].nextTarget < jobs[job].targetCount else { continue }
      look.add(.unstarted, received: jobs[job].received)
    }
    for index in 0..<sends.capacity {
      guard let send = sends.liveTicket(at: index), let job = sends[send].job else { continue }
      look.add(step(of: send), received: jobs[job].received)
    }
    return look
  }

  private func step(of send: Ticket) -> DeliveryStep {
    switch sends[send].delivery.phase {
    case .admitting: .admitting
    case .waiting: push.hasToken(for: sends[send].pool) ? .room : .token
    case .held: .channel
    case .sent: .sent
    case .reporting, .settled: sends[send].delivery.isPublished ? .confirm : .reporting
    }
  }

  private var hold: StandstillState.Hold? {
    if !drain.isRunning { return .draining }
    if epoch == nil { return .disconnected }
    if !broker.canPublish { return .unpublishable }
    return clock.now.monotonic.milliseconds(since: reportsHeldUntil) < Self.refusedMilliseconds ? .refused : nil
  }
}
