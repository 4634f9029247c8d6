/// Writes copies of a job that differ in their targets.
package enum JobRewriter {
  /// Appends the job's body with `to` replaced by one of its targets: what goes into a retry queue when one target of
  /// many has to wait. The other bytes stay as the producer wrote them.
  package static func append(_ job: borrowing PushJob, onlyTarget target: Int, to output: inout [UInt8]) {
    precondition(!job.to.isEmpty && job.to.range.upperBound <= job.bodyCount, "only a parsed job has a target to keep")
    output.append(ByteRange(start: 0, count: Int(job.to.start)), of: job.bytes)
    output.append(addingCapacity: targetCountMaximum(of: job, target)) { appendTarget(of: job, target, to: &$0) }
    let rest = job.to.range.upperBound
    output.append(ByteRange(start: rest, count: job.bodyCount - rest), of: job.bytes)
  }

  /// How long `appendTarget` may become.
  static func targetCountMaximum(of job: borrowing PushJob, _ target: Int) -> Int {
    Int(job.targets[target].count) + 16
  }

  /// Appends `{"token":"…"}` or `{"channel":"…"}` of one target. Neither needs escapes: both were checked.
  static func appendTarget(of job: borrowing PushJob, _ target: Int, to output: inout OutputSpan<UInt8>) {
    output.append(text: job.targetKind == .channel ? "{\"channel\":\"" : "{\"token\":\"")
    output.append(bytes: job.bytes.span.extracting(job.targets[target].range))
    output.append(text: "\"}")
  }
}
