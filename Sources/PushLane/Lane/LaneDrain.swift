import PushCore
import PushCredentials

/// Deliveries that a lane loses before they are settled: with their consumer, or because a drain hands them back.
extension Lane {
  /// Drains: takes no more jobs, finishes those in flight, hands the rest back at the deadline.
  package mutating func beginDrain() {
    let now = clock.now.monotonic
    if drain.begin(now: now, timeoutMilliseconds: settings.drainTimeoutMilliseconds) == .stopConsuming {
      broker.stopConsuming()
    }
  }

  /// The job of a send, which must be no orphan.
  mutating func job(of send: Ticket) -> Ticket {
    guard let job = sends[send].job else { preconditionFailure("an orphan has no job") }
    return job
  }

  /// Gives up all deliveries: their consumer is gone, or they were handed back, and the broker redelivers them.
  /// Requests on the wire become orphans, whose answers are remembered. All other sends are forgotten, and so are
  /// orphans that would leave less room than a full prefetch of deliveries needs.
  mutating func abandonDeliveries() {
    for index in queues.indices { queues[index].removeAll() }
    jobsSent = [0, 0]
    for index in 0..<sends.capacity {
      guard let send = sends.liveTicket(at: index) else { continue }
      guard sends[send].job != nil else {
        queues[Int(sends[send].pool.value)].share.sent()
        continue
      }
      switch sends[send].delivery.phase {
      case .sent where orphanCount < settings.sendsMaximum - settings.prefetch:
        sends[send].job = nil
        orphanCount += 1
        queues[Int(sends[send].pool.value)].share.sent()
      case .sent, .admitting, .waiting, .held, .reporting, .settled:
        sends.release(send)
      }
    }
    waitingCount = 0
    for index in unstarted.indices { unstarted[index].removeAll() }
    reports = InlineArray(repeating: SendList())
    refusedOutcomes.abandon()
    for index in askingLater.indices { askingLater[index].removeAll() }
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
