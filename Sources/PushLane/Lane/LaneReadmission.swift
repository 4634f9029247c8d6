import PushCore

/// Readmission: sends that ask the admission store again, because another copy of their job may have got an outcome since.
extension Lane {
  /// Of two copies that take over, one goes on, and the other waits here for its answer: a retry copy would be one more copy of
  /// a possible poison job.
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

  /// Another copy of the job may have taken it over meanwhile and got an answer, or a newer job of its collapse id was sent.
  mutating func isAdmittedLongAgo(_ ticket: Ticket, of job: Ticket, _ now: Now) -> Bool {
    let age = now.monotonic.milliseconds(since: sends[ticket].askedAt)
    guard age >= settings.orderAgeMaximumMilliseconds else { return false }
    return age >= settings.admissionAgeMaximumMilliseconds || jobs[job].isOrdered
  }

  /// Asks again for the first send of its class in a pool's queue. false: this send and all after it go on waiting.
  /// - Parameter room: how many may ask at once: as many as would find room.
  mutating func askAgain(_ ticket: Ticket, ofPool pool: Int, room: Int, _ now: Now) -> Bool {
    guard queues[pool].asking < room, admittingCount < settings.admissionsMaximum else { return false }
    let jobClass = sends[ticket].jobClass
    queues[pool].waitAgain(jobClass, &sends)
    queues[pool].popFirst(jobClass, of: sends)
    waitingCount -= 1
    sends[ticket].isAskedAgain = true
    sends[ticket].delivery.askedAgain()
    ask(ticket, of: job(of: ticket), now)
    return true
  }
}
