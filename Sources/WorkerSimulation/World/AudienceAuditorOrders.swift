import APNsSimulator
import PushCore

/// What operators ordered: a job that is paused or cancelled is not sent.
extension AudienceAuditor {
  /// A command about a job that was taken, or may have been. Unix milliseconds.
  struct Order {
    let command: ExpansionState.Command
    let sentAt: Int64
    /// nil: Redis did not answer.
    let answeredAt: Int64?
  }

  /// Pushes of a job arrive within this time after it was paused or cancelled: a lane asks every half second, but Redis may not answer.
  private var orderMilliseconds: Int64 { AudienceAuditor.underWayMilliseconds + pausedMilliseconds }

  func judgeOrders(_ ledger: Ledger) {
    var times: [String: [Int64]] = [:]
    for entry in ledger.entries { times[entry.apnsID, default: []].append(entry.receivedAt) }
    for id in order {
      guard let job = jobs[id], !isLossy(job) else { continue }
      let cancel = job.orders.first { $0.command == .cancel }
      if job.isCancelled, cancel == nil { fail("cancelled, and no operator did so: \(id)") }
      if let answeredAt = cancel?.answeredAt, !job.isCancelled, let endedAt = job.endedAt,
        endedAt > answeredAt + orderMilliseconds
      {
        fail("an operator cancelled it, and its outcome does not say so: \(id)")
      }
      for (number, order) in job.orders.enumerated() where order.command != .resume {
        guard let answeredAt = order.answeredAt else { continue }
        orderedCount += 1
        let next = order.command == .cancel ? nil : job.orders.dropFirst(number + 1).first
        let times = pushes(of: job, times, all: order.command == .pause || job.isUndone).sorted()
        if let late = times.first(where: { $0 > answeredAt + orderMilliseconds && $0 < next?.sentAt ?? .max }) {
          fail("sent \(late - answeredAt) ms after an operator's \(order.command.rawValue): \(id)")
        }
      }
    }
  }

  /// When pushes of a job arrived at APNs.
  /// - Parameter all: also those to late tokens, and broadcasts: they are repeated as long as its state is the activity's newest.
  private func pushes(of job: Job, _ times: [String: [Int64]], all: Bool) -> [Int64] {
    let ends = job.ends.values.joined().filter { all || !$0.isLate } + (all ? job.broadcasts : [])
    return Set(ends.map(\.apnsID)).flatMap { times[$0] ?? [] }
  }

  /// A cancelled update or end of which nothing stays is shown nowhere at the end.
  func judgeUndone(_ activity: String, _ targets: [String], _ pushes: [String: [Push]]) {
    // What was before it is a push of another job, which may be lost with a queue.
    if jobs.values.contains(where: { $0.job.activity == activity && $0.mayBeLost }) { return }
    let undone = jobs.values.filter { $0.job.activity == activity && $0.isUndone && !isLossy($0) }
    for job in undone.sorted(by: { $0.job.number < $1.job.number }) where job.job.push != .start {
      // What came later for all is judged by itself; a device that does not take part any more shows what it had.
      let isOld = jobs.values.contains {
        $0.job.activity == activity && ($0.job.push == .update || $0.job.push == .end) && !$0.isUndone
          && isOlder(job, than: $0)
      }
      if isOld { continue }
      for target in targets {
        let shown = pushes[target]?.max { $0.timestamp < $1.timestamp }
        if shown?.number == Int64(job.job.number) {
          fail("\(activity) shows a cancelled state, and its outcome does not say so: \(job.job.id) on \(target)")
        }
      }
    }
  }
}

extension AudienceAuditor.Job {
  /// An operator cancelled it.
  var isCancelled: Bool { outcomes.contains { $0.contains("\"cancelled\":true") } }

  /// Cancelled, and its outcome says that it may have been sent, and stays.
  var isKept: Bool { isCancelled && outcomes.contains { $0.contains("may have been sent") } }

  /// Cancelled, and nothing of it stays.
  var isUndone: Bool { isCancelled && !isKept }
}
