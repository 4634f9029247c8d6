/// Jobs that start, update and end a Live Activity by its id.
extension JobParser {
  /// The job's activity, and whether its other fields fit.
  func checkActivity(_ job: inout PushJob, _ fields: JobFields) throws(JobError) {
    if job.targetKind == .activity {
      if hasBackslash(job, job.targets[0]) {
        job.targets[0] = JSONEscape.appendUnescaped(job.targets[0], in: &job.bytes)
      }
      job.activity = job.targets[0]
    }
    if let activity = fields.activity {
      let range = text(activity, &job)
      if job.targetKind == .activity {
        let bytes = job.bytes.span
        guard bytes.extracting(range.range).isSame(as: bytes.extracting(job.activity.range)) else {
          throw JobError(field: "activity", rule: "is another activity than to.activity; leave it out")
        }
      }
      job.activity = range
      job.activityText = activity.range
    }
    guard fields.activity != nil || job.targetKind == .activity else {
      if fields.fallback != nil { throw JobParser.fallbackFault }
      if fields.revision != nil || fields.leave != nil { throw JobParser.revisionFault }
      return
    }
    if let rule = NameText.fault(job.bytes.span.extracting(job.activity.range)) {
      throw JobError(field: job.targetKind == .activity ? "to.activity" : "activity", rule: rule)
    }
    // A page of alerts is for devices that cannot show the activity.
    guard job.pushType == .liveactivity || job.pushType == .alert && job.targetKind == .page else {
      throw JobError(field: "activity", rule: "takes the push type liveactivity, not \(name(of: job))")
    }
    try checkEvent(job)
    if let fallback = fields.fallback {
      guard job.event == .start else { throw JobParser.fallbackFault }
      job.fallback = fallback
      let (count, maximum) = (FallbackWriter.payloadCount(job), FallbackWriter.payloadBytesMaximum)
      guard count <= maximum else {
        throw JobError(field: "fallback", rule: "must make an alert of at most \(maximum) bytes, not \(count)")
      }
    }
    try setRevision(&job, fields)
  }

  private static let fallbackFault = JobError(
    field: "fallback", rule: "is for the start of an activity, for devices that cannot show it")
  /// Of a job with a revision that did not come from a worker.
  package static let revisionFault = JobError(
    field: "revision", rule: "must be left out: Herald numbers an activity's updates itself")

  private func checkEvent(_ job: borrowing PushJob) throws(JobError) {
    switch (job.targetKind, job.event) {
    case (.channel, _) where !job.parentID.isEmpty:
      return
    case (.token, _), (.tokens, _), (.channel, _):
      throw JobError(
        field: "activity",
        rule: """
          goes with devices, users or a segment to start the activity; to update or end it for all its devices, give \
          to.activity
          """)
    case (.activity, .start):
      throw JobError(
        field: "to.activity", rule: "takes update and end; to start the activity give activity, and an audience in to")
    case (.devices, .update), (.users, .update), (.segment, .update):
      throw JobError(
        field: "to.\(job.targetKind)", rule: "takes start, and devices also end; an update goes to all: to.activity")
    case (.users, .end), (.segment, .end):
      throw JobError(
        field: "to.\(job.targetKind)",
        rule: "takes start; an activity ends for all devices (to.activity), or for some (to.devices)")
    case (.activity, _), (.devices, _), (.users, _), (.segment, _), (.page, _):
      return
    }
  }

  private func setRevision(_ job: inout PushJob, _ fields: JobFields) throws(JobError) {
    guard let number = fields.revision ?? fields.leave else {
      if job.targetKind == .page { throw JobParser.revisionFault }
      return
    }
    guard fields.revision == nil || fields.leave == nil, let revision = UInt32(exactly: number), revision > 0 else {
      throw JobParser.revisionFault
    }
    job.revision = revision
    job.isLeave = fields.leave != nil
  }
}
