import PushCore

/// When the lane's thread must turn again.
extension Lane {
  /// How long the loop may sleep without events: until an acknowledgement or a deadline may be due.
  package var idleMilliseconds: Int {
    mutating get {
      if (mayHaveMore && !isFull) || (canStartMore && broker.canPublish) { return 0 }
      if watermarks.contains(where: { $0.pendingCount > 0 }) { return Int(settings.acknowledgeDelayMilliseconds) }
      return sends.count > 0 || hasPossiblePoison ? 10 : 250
    }
  }

  /// The shortest time between the starts of two turns. A busy lane's jobs take much longer than that anyway, and larger
  /// batches cost all four peers less: fewer wake-ups, reads and writes.
  package var spacingMicroseconds: Int64 { jobs.count >= settings.busyJobsMinimum ? settings.spacingMicroseconds : 0 }

  /// There are targets to start, of jobs that cannot be poison, and room for them.
  private var canStartMore: Bool {
    mutating get {
      for queue in StartQueue.allCases where !queue.mayBePoison {
        if let job = unstarted[queue.rawValue].first, canStart(job) { return true }
      }
      return false
    }
  }

  /// A job that may be poison waits to start.
  private var hasPossiblePoison: Bool {
    mutating get {
      for queue in StartQueue.allCases where queue.mayBePoison && !unstarted[queue.rawValue].isEmpty { return true }
      return false
    }
  }
}
