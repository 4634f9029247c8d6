import PushCore

/// A job as a producer may send it: parser, payload rules, outcome writer, and the copy with one target.
final class JobSubject: FuzzSubject {
  private var parser = JobParser()
  private var job = PushJob()
  private var again = PushJob()
  private var output: [UInt8] = []
  private let messageID = Array("message".utf8)
  private let writer = OutcomeWriter(worker: "host-1/0")

  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    let messageID = messageID
    job.bytes.replaceSubrange(0..<job.bytes.count, with: bytes)
    job.bodyCount = bytes.count
    var error: JobError?
    do throws(JobError) {
      try parser.parse(into: &job, fallbackID: messageID.span)
    } catch let thrown {
      error = thrown
    }
    try holds(job.bytes.starts(with: bytes), "the body stays as the producer wrote it")
    if let error {
      try holds(!error.field.isEmpty && !error.rule.isEmpty, "an error names field and rule")
      try holds(job.targets.isEmpty, "an invalid job has no targets")
      try outcome(.invalid, detail: error.detail, target: nil, bytes.count)
      return
    }
    try holds(isJSON(bytes), "a job that is taken is JSON")
    try holds(!job.targets.isEmpty, "a job that is taken has targets")
    try outcome(.accepted, detail: nil, target: 0, bytes.count)
    output.removeAll(keepingCapacity: true)
    JobRewriter.append(job, onlyTarget: job.targets.count - 1, to: &output)
    again.bytes.replaceSubrange(0..<again.bytes.count, with: output)
    again.bodyCount = output.count
    do throws(JobError) {
      try parser.parse(into: &again, fallbackID: messageID.span)
    } catch {
      throw FuzzFinding("a copy for one target is invalid: \(error)")
    }
    try holds(again.targets.count == 1, "a copy has one target")
  }

  private func outcome(_ outcome: Outcome, detail: String?, target: Int?, _ count: Int) throws(FuzzFinding) {
    output.removeAll(keepingCapacity: true)
    writer.append(
      OutcomeRecord(outcome: outcome, detail: detail, attempts: 0, receivedAt: 1, sentAt: nil, completedAt: 2),
      of: job, target: target, apnsID: UUIDValue.apnsID(for: job, target: target), to: &output)
    try holds(isJSON(output), "an outcome is JSON")
    // An escape takes six bytes for one.
    try holds(output.count <= 6 * count + 4096, "an outcome is not much longer than its job")
  }
}

/// Whether the bytes are one JSON value.
func isJSON(_ bytes: [UInt8]) -> Bool {
  var scanner = JSONScanner()
  do throws(JSONError) {
    try scanner.skipValue(bytes.span)
    try scanner.end(bytes.span)
    return true
  } catch {
    return false
  }
}
