import PushCore

/// Deliveries that somebody did not finish: what may end workers is kept away from its neighbours.
extension Lane {
  /// A batch waits as a whole for whoever lost it: one copy for each of its targets could be as many poison jobs. false: its time would
  /// be over then.
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

  /// Behind nothing that is in flight: the delivery that is the broker's last must not end while it waits.
  mutating func putAside(_ job: Ticket, _ now: Now) {
    isolating += 1
    guard let send = takeSend(of: job) else { preconditionFailure("each delivery has a slot to be put aside") }
    perform(sends[send].delivery.isolated(), send, now)
  }
}
