import PushCore
package import PushCredentials
import PushIO
package import PushSettings
import Synchronization

/// What a reload changes in a running lane.
package struct LaneUpdate: Sendable {
  package let credentials: Credentials
  package let limits: Configuration.Limits
  /// Names of credentials that are not used.
  package let revoked: Set<String>

  package init(credentials: Credentials, limits: Configuration.Limits, revoked: Set<String> = []) {
    self.credentials = credentials
    self.limits = limits
    self.revoked = revoked
  }
}

/// Pauses that end by command.
package struct PauseLift: Sendable {
  /// nil: of every credential.
  package let credential: String?
  /// nil: everything that is paused of it.
  package let topic: String?

  package init(credential: String?, topic: String?) {
    self.credential = credential
    self.topic = topic
  }
}

/// Requests from other threads to a lane, and its answers. The lane checks it once a turn.
package final class LaneControl: Sendable {
  private struct State {
    var mailbox: Mailbox?
    var isDrainWanted = false
    var isStopWanted = false
    var update: LaneUpdate?
    /// Names of credentials, since the last update.
    var revocations: [String] = []
    var lifts: [PauseLift] = []
    var requests: [ReportRequest] = []
    /// The lane's last report.
    var lastReport: LaneReport?
    var isEnded = false
    /// It ended because it was asked to, or had nothing left to do.
    var isDone = false
    var ended: [CheckedContinuation<Void, Never>] = []
  }

  package let name: String
  private let state = Mutex(State())

  package init(name: String) {
    self.name = name
  }

  // MARK: for all threads

  /// Take no more jobs, finish those in flight, then end.
  package func drain() {
    change { $0.isDrainWanted = true }
  }

  /// End now: jobs in flight return to their queues by themselves.
  package func stop() {
    change { $0.isStopWanted = true }
  }

  /// Use this from now on.
  package func reload(_ update: LaneUpdate) {
    change {
      $0.update = update
      $0.revocations = []
    }
  }

  /// End this credential's connections now, and do not use it until an update without it.
  package func revoke(credential: String) {
    change { $0.revocations.append(credential) }
  }

  /// End these pauses now.
  package func lift(_ pauses: PauseLift) {
    change { $0.lifts.append(pauses) }
  }

  /// The lane's report; nil if it does not answer within the time, or has ended.
  package func report(timeoutMilliseconds: Int) async -> LaneReport? {
    let request = ReportRequest()
    let isAsked = state.withLock { state in
      guard !state.isEnded else { return false }
      state.requests.append(request)
      state.mailbox?.wake()
      return true
    }
    guard isAsked else { return nil }
    let timer = Task {
      try await Task.sleep(for: .milliseconds(timeoutMilliseconds))
      request.answer(nil)
    }
    defer { timer.cancel() }
    return await request.answer()
  }

  /// The lane's last report, whether it answers now or not, so that sums of counters never decrease. nil: none yet.
  package var lastReport: LaneReport? { state.withLock(\.lastReport) }

  /// It ended in order.
  package var isDone: Bool { state.withLock(\.isDone) }

  /// Returns once the lane's thread has nothing left to do.
  package func waitUntilEnded() async {
    await withCheckedContinuation { continuation in
      let isEnded = state.withLock { state in
        if !state.isEnded { state.ended.append(continuation) }
        return state.isEnded
      }
      if isEnded { continuation.resume() }
    }
  }

  // MARK: for the lane

  func attach(_ mailbox: Mailbox) {
    state.withLock { $0.mailbox = mailbox }
  }

  /// The requests since the last turn.
  func take() -> Asked {
    state.withLock { state in
      let asked = Asked(
        isDrainWanted: state.isDrainWanted, isStopWanted: state.isStopWanted, update: state.update.take(),
        revocations: state.revocations, lifts: state.lifts, requests: state.requests)
      if !asked.requests.isEmpty { state.requests = [] }
      if !asked.revocations.isEmpty { state.revocations = [] }
      if !asked.lifts.isEmpty { state.lifts = [] }
      return asked
    }
  }

  /// The requests to a lane in one turn; revocations are later than the update.
  struct Asked {
    let isDrainWanted: Bool
    let isStopWanted: Bool
    let update: LaneUpdate?
    let revocations: [String]
    let lifts: [PauseLift]
    let requests: [ReportRequest]
  }

  /// Answers all report requests.
  package func tell(_ report: LaneReport, _ requests: [ReportRequest] = []) {
    var report = report
    report.lane = name
    state.withLock { $0.lastReport = report }
    for request in requests { request.answer(report) }
  }

  /// - Parameter last: its last report; nil if it did not end in order.
  package func end(_ last: LaneReport? = nil) {
    let (requests, waiters) = state.withLock { state in
      state.isEnded = true
      state.isDone = last != nil
      state.lastReport = (last ?? state.lastReport)?.ended()
      state.lastReport?.lane = name
      state.mailbox = nil
      let taken = (state.requests, state.ended)
      state.requests = []
      state.ended = []
      return taken
    }
    for request in requests { request.answer(nil) }
    for waiter in waiters { waiter.resume() }
  }

  private func change(_ body: (inout sending State) -> Void) {
    let mailbox = state.withLock { state in
      body(&state)
      return state.mailbox
    }
    mailbox?.wake()
  }
}

/// One request for a report: answered once, by the lane or by its timer.
package final class ReportRequest: Sendable {
  private enum State {
    case waiting(CheckedContinuation<LaneReport?, Never>?)
    case answered(LaneReport?)
    case done
  }

  private let state = Mutex(State.waiting(nil))

  func answer(_ report: LaneReport?) {
    let continuation: CheckedContinuation<LaneReport?, Never>? = state.withLock { state in
      guard case .waiting(let continuation) = state else { return nil }
      state = continuation == nil ? .answered(report) : .done
      return continuation
    }
    continuation?.resume(returning: report)
  }

  func answer() async -> LaneReport? {
    await withCheckedContinuation { continuation in
      let known: LaneReport?? = state.withLock { state in
        switch state {
        case .waiting:
          state = .waiting(continuation)
          return nil
        case .answered(let report):
          state = .done
          return .some(report)
        case .done:
          return .some(nil)
        }
      }
      if let known { continuation.resume(returning: known) }
    }
  }
}
