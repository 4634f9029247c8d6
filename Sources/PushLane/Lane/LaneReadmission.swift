import PushCore

/// Sends that the admission store is asked about a second time, because another copy of their job may have come to its end since.
extension Lane {
  /// Of two copies that take over one goes on, and the other one waits here for its answer: a copy in a retry queue would be one more of
  /// a job that may end this worker.
  mutating func askAboutClaimed(_ now: Now) {
    while admittingCount < settings.admissionsMaximum, let send = claimed.first {
      if sends.isLive(send) {
        guard now.monotonic.milliseconds(since: sends[send].askedAt) >= settings.claimedPauseMilliseconds else {
          return
        }
        ask(send, of: job(of: send), now)
      }
      _ = claimed.popFirst()
    }
  }

  /// Another copy of its job may have taken it over meanwhile, and been answered.
  func isAdmittedLongAgo(_ ticket: Ticket, _ now: Now) -> Bool {
    now.monotonic.milliseconds(since: sends[ticket].askedAt) >= settings.admissionAgeMaximumMilliseconds
  }

  /// Asks anew for the one that would leave now, or end. false: it goes on waiting, and all behind it.
  /// - Parameter room: no more than would find room are asked about at once.
  mutating func askAgain(_ ticket: Ticket, ofPool pool: Int, room: Int, _ now: Now) -> Bool {
    guard queues[pool].asking < room, admittingCount < settings.admissionsMaximum else { return false }
    queues[pool].waitAgain(&sends)
    queues[pool].popFirst(of: sends)
    waitingCount -= 1
    sends[ticket].isAskedAgain = true
    sends[ticket].delivery.askedAgain()
    ask(ticket, of: job(of: ticket), now)
    return true
  }
}
