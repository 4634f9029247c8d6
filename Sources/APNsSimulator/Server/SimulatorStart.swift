import Dispatch
import PushIO
import Synchronization

/// The engine's thread reports here whether it started.
final class SimulatorStart: Sendable {
  typealias Outcome = Result<(SimulatorPorts, Mailbox), SimulatorError>

  private let outcome = Mutex<Outcome?>(nil)
  private let reported = DispatchSemaphore(value: 0)

  func succeed(_ ports: SimulatorPorts, mailbox: Mailbox) { tell(.success((ports, mailbox))) }
  func fail(_ error: SimulatorError) { tell(.failure(error)) }

  private func tell(_ result: Outcome) {
    outcome.withLock { $0 = result }
    reported.signal()
  }

  func wait() -> Outcome {
    reported.wait()
    return outcome.withLock { $0 } ?? .failure(SimulatorError("the simulator's thread ended early"))
  }
}
