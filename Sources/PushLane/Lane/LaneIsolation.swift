import PushCore

/// Deliveries that a worker did not finish: possible poison jobs are kept apart from other jobs.
extension Lane {
  /// The whole batch waits for the answers of the worker that lost it: one copy for each target could be as many poison jobs. false: it
  /// would expire before that.
  mutating func putOff(_ job: Ticket, _ now: Now) -> Bool {
    let number = max(1, jobs[job].metadata.redeliveries)
    guard case .again(let delaySeconds) = settings.retry.wait(number: number, jobs[job].times, now: now) else {
      return false
    }
    jobs[job].putOff()
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be put off") }
    perform(sends[send].delivery.putOff(delaySeconds: delaySeconds), send, now)
    return true
  }

  mutating func holdPossiblePoison(_ now: Now) {
    possiblePoisonHeldUntil = now.monotonic.adding(milliseconds: settings.possiblePoisonPauseMilliseconds)
  }

  /// Isolates a job at once: if this is its last delivery before the broker's limit, it must not wait for other jobs.
  mutating func isolate(_ job: Ticket, _ now: Now) {
    isolating += 1
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be isolated") }
    perform(sends[send].delivery.isolated(), send, now)
  }
}
