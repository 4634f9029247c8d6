import PushCore

/// Where a job waits for the start of its targets, in the order in which a lane serves them: a batch takes all the room that there is.
enum StartQueue: Int, CaseIterable {
  case transactional
  /// It has room of its own, so it waits behind no other.
  case isolated
  /// Those that waited for an answer in vain.
  case unanswered
  case bulk

  init(_ job: borrowing JobSlot) {
    self =
      if job.tag.isIsolated {
        .isolated
      } else if job.takesOver {
        .unanswered
      } else {
        job.tag.jobClass == .bulk ? .bulk : .transactional
      }
  }

  /// Their jobs may end this worker.
  var mayBePoison: Bool { self == .isolated || self == .unanswered }
}
