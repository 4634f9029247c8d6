import PushCore

/// Where a job waits for the start of its targets, in the order in which a lane serves them: a batch takes all the room that there is.
enum StartQueue: Int, CaseIterable {
  case transactional
  /// The one that is alone: room of its own, so it waits behind no other.
  case alone
  /// Those that waited for an answer in vain.
  case suspects
  case bulk

  init(_ job: borrowing JobSlot) {
    self =
      if job.tag.isAlone {
        .alone
      } else if job.takesOver {
        .suspects
      } else {
        job.tag.jobClass == .bulk ? .bulk : .transactional
      }
  }

  /// Their jobs may end this worker.
  var isOfSuspects: Bool { self == .alone || self == .suspects }
}
