import PushCore

/// Deliveries that go away before their end: those of a consumer that is gone, and those that a stop hands back.
extension Lane {
  /// Stops: takes no more jobs, finishes those in flight, gives the rest back at the deadline.
  package mutating func beginDrain() {
    let now = clock.now.monotonic
    if drain.begin(now: now, timeoutMilliseconds: settings.drainTimeoutMilliseconds) == .stopConsuming {
      broker.stopConsuming()
    }
  }

  /// The job of a send that is no orphan.
  func job(of send: Ticket) -> Ticket {
    guard let job = sends[send].job else { preconditionFailure("an orphan has no job") }
    return job
  }

  /// The deliveries are not ours any more: their consumer is gone, or they were handed back. The broker gives them to somebody
  /// again. What is on the wire stays there, as a request without a job, and its answer is remembered; all else is forgotten, and what
  /// would leave no room for as many deliveries as come at once.
  mutating func abandonDeliveries() {
    for index in 0..<sends.capacity {
      guard let send = sends.liveTicket(at: index), sends[send].job != nil else { continue }
      switch sends[send].delivery.phase {
      case .sent where orphanCount < settings.sendsMaximum - settings.prefetch:
        sends[send].job = nil
        orphanCount += 1
      case .sent, .admitting, .waiting, .held, .reporting, .settled:
        sends.release(send)
      }
    }
    for index in queues.indices { queues[index].removeAll() }
    waitingCount = 0
    for index in unstarted.indices { unstarted[index].removeAll() }
    reports.removeAll()
    claimed.removeAll()
    abandonPages()
    for index in 0..<jobs.capacity {
      guard let job = jobs.liveTicket(at: index) else { continue }
      forget(job)
    }
  }

  mutating func advanceDrain(_ now: Now) {
    switch drain.turn(now: now.monotonic, inFlight: jobs.count + orphanCount) {
    case .none, .stopConsuming:
      break
    case .handBack:
      for index in 0..<jobs.capacity {
        guard let job = jobs.liveTicket(at: index) else { continue }
        handBack(jobs[job].tag, now)
      }
      abandonDeliveries()
    case .finish:
      acknowledge(now)
      push.close()
    }
  }
}
