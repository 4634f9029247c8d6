import PushCore
package import PushSettings

/// What a send waits for that asks the admission store again.
enum AskingLater: Int, CaseIterable {
  /// An older job of its collapse id, for its answer: usually as long as APNs takes.
  case behind
  /// Of two copies that take over, one goes on, and the other waits for its answer: a retry copy would be one more copy of a possible
  /// poison job.
  case claimed
}

/// Readmission: sends that ask the admission store again, because another copy of their job may have got an outcome since.
extension Lane {
  /// Whether it waits here, and asks again.
  mutating func asksLater(_ send: Ticket, of job: Ticket, _ admission: inout Admission, _ now: Now) -> Bool {
    switch admission {
    case .behind:
      askingLater[AskingLater.behind.rawValue].append(send)
      return true
    case .claimed where jobs[job].takesOver:
      if isOvertaken(send, of: job) {
        // It was waited for once, and nothing is sent: the mark says enough.
        admission = .repeated(.proceed)
      } else if !isOver(job, now) {
        askingLater[AskingLater.claimed.rawValue].append(send)
        return true
      }
      return false
    case .proceed, .duplicate, .dead, .limited, .superseded, .claimed, .repeated:
      return false
    }
  }

  /// Many ask less often: one lane asks about 10,000 a second.
  private func pauseMilliseconds(_ kind: AskingLater) -> Int64 {
    switch kind {
    case .behind: max(settings.behindPauseMilliseconds, Int64(askingLater[kind.rawValue].count) / 10)
    case .claimed: settings.claimedPauseMilliseconds
    }
  }

  mutating func askLater(_ now: Now) {
    // What is new waits for none of those.
    askLater(.behind, admissionsMaximum: settings.admissionsMaximum / 2, now)
    askLater(.claimed, admissionsMaximum: settings.admissionsMaximum, now)
  }

  private mutating func askLater(_ kind: AskingLater, admissionsMaximum: Int, _ now: Now) {
    while admittingCount < admissionsMaximum, let send = askingLater[kind.rawValue].first {
      if sends.isLive(send) {
        guard now.monotonic.milliseconds(since: sends[send].askedAt) >= pauseMilliseconds(kind) else { return }
        ask(send, of: job(of: send), now)
      }
      _ = askingLater[kind.rawValue].popFirst()
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

  /// Sets how jobs over their device's rate are treated from now on.
  package mutating func update(onLimit: RateLimitPolicy) {
    settings.onLimit = onLimit
  }

  /// At the start, and after a reload.
  package mutating func reserveLabels(for apps: [String]) { counters.reserveLabels(for: apps) }
}
