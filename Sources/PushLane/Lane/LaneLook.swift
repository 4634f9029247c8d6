package import PushCore

/// A snapshot of a lane for `StandstillState`: its progress, the steps of its jobs, and any reason to wait.
extension Lane {
  package var jobsInFlight: Int { jobs.count }
  package var unconfirmedCount: Int { confirms.count }
  package var isConsuming: Bool { epoch != nil && drain.isRunning }
  package var isDrained: Bool { drain.isDrained }

  /// Records how long the loop's turn took.
  package mutating func turned(nanoseconds: Int64) {
    counters.turnDuration.record(nanoseconds: nanoseconds)
  }

  /// Visits every slot in use. It runs once a second, and for each report.
  package func look() -> StandstillState.Look {
    var look = StandstillState.Look(settled: counters.settled &+ moves, inFlight: jobs.count, hold: hold)
    var (index, left) = (0, jobs.count)
    while left > 0 {
      defer { index += 1 }
      guard let job = jobs.liveTicket(at: index) else { continue }
      left -= 1
      if jobs[job].nextTarget < jobs[job].targetCount { look.add(.unstarted, received: jobs[job].received) }
    }
    (index, left) = (0, sends.count)
    while left > 0 {
      defer { index += 1 }
      guard let send = sends.liveTicket(at: index) else { continue }
      left -= 1
      if let job = sends[send].job { look.add(step(of: send), received: jobs[job].received) }
    }
    return look
  }

  /// A contradiction between its tables and its counts, for simulations; nil: none.
  package var contradiction: String? {
    let waiting = queues.reduce(0) { $0 + $1.count }
    if waiting != waitingCount { return "\(waiting) sends wait for room, and \(waitingCount) are counted" }
    if queues.contains(where: { $0.asking < 0 }) { return "fewer than no sends of a pool are asked about again" }
    let held = queues.reduce(0) { $0 + $1.held }
    guard 0...sends.count - orphanCount ~= held else { return "\(held) sends of pools, of \(sends.count)" }
    let onWire = queues.reduce(0) { $0 + $1.share.onWire }
    guard 0...held ~= onWire - orphanCount else { return "\(onWire) requests, \(orphanCount) orphans, \(held) sends" }
    let inFlight = queues.reduce(0) { $0 + $1.inFlight }
    if inFlight != onWire - orphanCount { return "\(inFlight) requests of jobs, \(onWire) and \(orphanCount) orphans" }
    let sent = jobsSent.reduce(0, +)
    let sentOfPools = queues.reduce(0) { $0 + $1.jobsSent }
    guard 0...jobs.count ~= sent, sentOfPools == sent else {
      return "\(sent) of \(jobs.count) jobs were sent, \(sentOfPools) by their pools"
    }
    if refusedOutcomes.apps.contains(where: { $0.held[0] + $0.held[1] != $0.waiting.count }) {
      return "refused outcomes wait that are not counted"
    }
    guard 0...sends.count ~= orphanCount else { return "\(orphanCount) orphans of \(sends.count) sends" }
    guard 0...sends.capacity ~= admittingCount else { return "\(admittingCount) admissions are waited for" }
    if openPages.contains(where: { $0 < 0 }) { return "fewer than no pages have devices to start" }
    if isolating < 0 { return "fewer than no deliveries are being isolated" }
    if confirms.count > settings.unconfirmedMaximum { return "\(confirms.count) publishes are not confirmed" }
    if bodyBytes.contains(where: { $0 < 0 }) || jobs.count == 0 && bodyBytesInFlight > 0 {
      return "\(bodyBytes) bytes are held, of \(jobs.count) jobs"
    }
    if jobs.count == 0, sends.count > orphanCount { return "\(sends.count - orphanCount) sends of no job" }
    let delivered = watermarks.reduce(0) { $0 + $1.openCount }
    return epoch != nil && delivered > jobs.count ? "\(delivered) deliveries are open of \(jobs.count) jobs" : nil
  }

  /// A destination refuses, and something waits for it.
  private var isRefused: Bool {
    if refusedOutcomes.isWaiting { return true }
    return PublishDestination.allCases.contains { destination in
      destinations[destination.rawValue].refusingSince != nil && reports[destination.rawValue].first != nil
    }
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
    return isRefused ? .refused : nil
  }
}
