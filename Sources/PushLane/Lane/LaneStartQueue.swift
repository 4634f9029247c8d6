import PushCore

/// The queues in which jobs wait for the start of their targets, in the order in which a lane serves them. A batch may take all the room.
enum StartQueue: Int, CaseIterable {
  case transactional
  /// It has its own room, so it waits for no other job.
  case isolated
  /// Jobs that waited for another worker's answer in vain.
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

  /// Jobs of this queue may crash the worker.
  var mayBePoison: Bool { self == .isolated || self == .unanswered }
}
