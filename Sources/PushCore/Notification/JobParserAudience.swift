/// Targets from the registry: an audience's names, and its pages.
extension JobParser {
  static let parentFault = JobError(
    field: "parent_id", rule: "is for the pages of an audience, which Herald makes itself")
  static let dryRunFault = JobError(field: "dry_run", rule: "counts an audience: devices, users or a segment")
  /// What a producer would have to write to meet it is the job's own id, a slash and a number, and the id once more as `parent_id`.
  private static let pageFault = JobError(
    field: "to.page", rule: "is for the pages of an audience, which Herald makes itself; give devices, users or segment"
  )

  /// Duplicates count once.
  mutating func checkAudience(
    _ job: inout PushJob, _ rules: PushTypeRules, hasActivity: Bool
  ) throws(JobError) {
    for index in job.targets.indices {
      if hasBackslash(job, job.targets[index]) {
        job.targets[index] = JSONEscape.appendUnescaped(job.targets[index], in: &job.bytes)
      }
      let range = job.targets[index]
      let name = job.bytes.span.extracting(range.range)
      let rule = job.targetKind == .segment ? NameText.codeFault(name) : NameText.fault(name)
      if let rule { throw JobError(field: JobParser.field(job.targetKind, index), rule: rule) }
      guard job.targetKind == .devices, range.count >= Limits.tokenDigitsUsual, range.count & 1 == 0 else { continue }
      // The registry would search for a device with this id and find none.
      guard Hex.classify(job.bytes.span.extracting(range.range)) == .mixedCase else { continue }
      throw JobError(
        field: JobParser.field(job.targetKind, index),
        rule: "is a device token with upper-case digits; write it in lower case")
    }
    guard job.pushType != .liveactivity || hasActivity else {
      throw JobError(
        field: JobParser.field(job.targetKind, nil),
        rule: "takes the push type liveactivity only with the id of the activity: activity is missing")
    }
    guard rules.takesAudience else {
      throw JobError(
        field: JobParser.field(job.targetKind, nil),
        rule: "takes no \(name(of: job)) push: its token is no device's in the registry; give to.token")
    }
    guard job.targets.count > 1 else { return }
    var targets: [ByteRange] = []
    swap(&targets, &job.targets)
    tokens.removeRepeated(&targets, in: job.bytes.span)
    swap(&targets, &job.targets)
  }

  private static func field(_ kind: PushJob.TargetKind, _ index: Int?) -> String {
    guard let index, kind != .segment else { return "to.\(kind)" }
    return "to.\(kind)[\(index)]"
  }

  /// A job is the broadcast of an activity's update or end if its names are those that `PageWriter` writes.
  func checkBroadcast(_ job: inout PushJob, _ fields: JobFields) throws(JobError) {
    job.parentID = text(fields.parentID, &job)
    let bytes = job.bytes.span
    let (id, parent) = (bytes.extracting(job.id.range), bytes.extracting(job.parentID.range))
    guard 1...Limits.idBytesMaximum ~= parent.count, id.count > parent.count,
      id.extracting(0..<parent.count).isSame(as: parent),
      JobParser.isBroadcastName(id.extracting(parent.count..<id.count)), fields.activity != nil, fields.revision != nil
    else { throw JobParser.parentFault }
  }

  private static func isBroadcastName(_ name: Span<UInt8>) -> Bool {
    name.equals("/channel")
      || name.count == 25 && name.extracting(0..<9).equals("/channel/")
        && Hex.classify(name.extracting(9..<25)) == .lowerCase
  }

  /// A job is a page if its names are those that `PageWriter` writes.
  func checkPage(_ job: inout PushJob, _ fields: JobFields) throws(JobError) {
    job.parentID = text(fields.parentID, &job)
    guard let page = fields.page.flatMap(UInt32.init(exactly:)), isOwn(job, page: page, late: fields.late),
      0..<Int64(AudiencePage.devicesMaximum) ~= fields.position, !job.targets.isEmpty,
      Int(fields.position) + job.targets.count <= AudiencePage.devicesMaximum
    else { throw JobParser.pageFault }
    if let late = fields.late {
      guard page == AudiencePage.lateNumber, job.targets.count == 1, fields.revision != nil || fields.leave != nil
      else {
        throw JobParser.pageFault
      }
      job.page.late = late.range
    }
    job.page.number = page
    job.page.position = Int(fields.position)
    job.page.epoch = UInt64(fields.epoch)
    let digits = DeviceFingerprints.digitCount
    if !fields.fingerprints.isEmpty, fields.fingerprints.count != job.targets.count * digits {
      throw JobParser.pageFault
    }
    job.page.begin(job.targets, fingerprints: fields.fingerprints)
    for index in job.targets.indices where !fields.fingerprints.isEmpty {
      guard job.page.fingerprint(index, in: job.bytes.span) != nil else { throw JobParser.pageFault }
    }
    for index in job.targets.indices.dropFirst()
    where job.page.ordinal(index - 1, in: job.bytes.span) >= job.page.ordinal(index, in: job.bytes.span) {
      throw JobParser.pageFault
    }
  }

  private func isOwn(_ job: borrowing PushJob, page: UInt32, late: JSONString?) -> Bool {
    let bytes = job.bytes.span
    let (id, parent) = (bytes.extracting(job.id.range), bytes.extracting(job.parentID.range))
    guard 1...Limits.idBytesMaximum ~= parent.count, id.count > parent.count,
      id.extracting(0..<parent.count).isSame(as: parent)
    else { return false }
    let rest = id.extracting(parent.count..<id.count)
    guard let late else { return rest.equals("/\(page)") }
    let device = JSONEscape.unescaped(late.range, of: bytes)
    return rest.count == 6 + device.count && rest.extracting(0..<6).equals("/late/")
      && rest.extracting(6..<rest.count).isSame(as: device.span)
  }
}
