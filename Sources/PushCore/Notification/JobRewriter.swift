/// Writes copies of a job with other targets.
package enum JobRewriter {
  /// Appends the job's body with `to` replaced by one of its targets: what goes into a retry queue when one target of
  /// many has to wait. The other bytes stay as the producer wrote them.
  package static func append(_ job: borrowing PushJob, onlyTarget target: Int, to output: inout [UInt8]) {
    precondition(!job.to.isEmpty && job.to.range.upperBound <= job.bodyCount, "only a parsed job has a target to keep")
    output.append(ByteRange(start: 0, count: Int(job.to.start)), of: job.bytes)
    output.append(addingCapacity: targetCountMaximum(of: job, target)) { output in
      if job.page.isEmpty {
        appendTarget(of: job, target, to: &output)
      } else {
        appendPart(of: job, target, to: &output)
      }
    }
    let rest = job.to.range.upperBound
    output.append(ByteRange(start: rest, count: job.bodyCount - rest), of: job.bytes)
  }

  /// The maximum length that `appendTarget` writes.
  static func targetCountMaximum(of job: borrowing PushJob, _ target: Int) -> Int {
    // Of a page: a device's id with escapes, or its page, ordinal, position, epoch and fingerprint.
    job.page.isEmpty ? Int(job.targets[target].count) + 16 : JSONText.countMaximum(Limits.nameBytesMaximum) + 160
  }

  /// Appends a page of one device, for a copy: when it comes back, its token is read again.
  private static func appendPart(of job: borrowing PushJob, _ target: Int, to output: inout OutputSpan<UInt8>) {
    output.append(text: "{\"page\":")
    output.append(decimal: Int64(job.page.number))
    output.append(text: ",\"ordinals\":[")
    output.append(bytes: job.bytes.span.extracting(job.page.ordinals[target].range))
    output.append(text: "],\"position\":")
    output.append(decimal: Int64(job.page.positions[target]))
    if job.page.epoch != 0 {
      output.append(text: ",\"epoch\":")
      output.append(decimal: Int64(job.page.epoch))
    }
    let fingerprint = job.page.fingerprintRange(target)
    if !fingerprint.isEmpty {
      output.append(text: ",\"fingerprints\":\"")
      output.append(bytes: job.bytes.span.extracting(fingerprint.range))
      output.append(ASCII.quote)
    }
    if !job.page.late.isEmpty {
      output.append(text: ",\"late\":\"")
      output.append(bytes: job.bytes.span.extracting(job.page.late.range))
      output.append(ASCII.quote)
    }
    output.append(ASCII.closeBrace)
  }

  /// Appends `{"token":"…"}` or `{"channel":"…"}` of one target, which need no escapes; of a page `{"device":"…"}`.
  static func appendTarget(of job: borrowing PushJob, _ target: Int, to output: inout OutputSpan<UInt8>) {
    guard job.page.isEmpty else {
      output.append(text: "{\"device\":")
      output.append(jsonString: job.bytes.span.extracting(job.page.devices[target].range))
      output.append(ASCII.closeBrace)
      return
    }
    output.append(text: job.targetKind == .channel ? "{\"channel\":\"" : "{\"token\":\"")
    output.append(bytes: job.bytes.span.extracting(job.targets[target].range))
    output.append(text: "\"}")
  }
}
