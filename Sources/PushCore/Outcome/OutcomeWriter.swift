/// Writes outcomes, version 1, and their routing keys.
///
/// Fields that an invalid job does not have are null. Only the output's growth allocates.
package struct OutcomeWriter: Sendable {
  /// `,"worker":"…"` as it stands in every outcome of this lane.
  private let workerField: [UInt8]

  /// `worker`: the worker's name, as in `host-1/0`.
  package init(worker: String) {
    var field: [UInt8] = []
    field.append(text: ",\"worker\":")
    field.append(addingCapacity: JSONText.countMaximum(worker.utf8.count)) { $0.append(jsonString: worker.utf8.span) }
    workerField = field
  }

  /// Appends the outcome of one target, or of the job as a whole.
  /// - Parameters:
  ///   - target: index into the job's targets; nil if the job has none, because it is invalid. `to` is then as the producer wrote it (null
  ///     if it is missing, broken or longer than `Limits.invalidTargetBytesMaximum`).
  package func append(
    _ record: borrowing OutcomeRecord, of job: borrowing PushJob, target: Int?, apnsID: UUIDValue,
    to output: inout [UInt8]
  ) {
    output.append(addingCapacity: countMaximum(record, of: job, target)) { span in
      write(record, of: job, target: target, apnsID: apnsID, to: &span)
    }
  }

  private func write(
    _ record: borrowing OutcomeRecord, of job: borrowing PushJob, target: Int?, apnsID: UUIDValue,
    to output: inout OutputSpan<UInt8>
  ) {
    output.append(text: "{\"version\":1,\"job_id\":")
    OutcomeWriter.append(stringOrNull: job.id, of: job, to: &output)
    output.append(text: ",\"apns_id\":\"")
    apnsID.write(to: &output)
    output.append(text: "\",\"apns_unique_id\":")
    if let unique = record.apnsUniqueID {
      output.append(ASCII.quote)
      unique.write(to: &output)
      output.append(ASCII.quote)
    } else {
      output.append(text: "null")
    }
    output.append(text: ",\"outcome\":\"")
    output.append(text: record.outcome.name)
    output.append(text: "\",\"status\":")
    OutcomeWriter.append(record.status.map(Int64.init), to: &output)
    output.append(text: ",\"reason\":")
    switch record.reason {
    case .none: output.append(text: "null")
    case .some(.other(let text)): output.append(jsonString: text.utf8.span)
    case .some(let known):
      output.append(ASCII.quote)
      output.append(text: known.name)
      output.append(ASCII.quote)
    }
    output.append(text: ",\"detail\":")
    if let detail = record.detail { output.append(jsonString: detail.utf8.span) } else { output.append(text: "null") }
    output.append(text: ",\"app\":")
    OutcomeWriter.append(stringOrNull: job.app, of: job, to: &output)
    output.append(text: ",\"topic\":")
    OutcomeWriter.append(stringOrNull: job.topic, of: job, to: &output)
    output.append(text: ",\"push_type\":")
    OutcomeWriter.append(stringOrNull: job.pushTypeName, of: job, to: &output)
    output.append(text: ",\"environment\":\"")
    output.append(text: job.environment.name)
    output.append(text: "\",\"to\":")
    appendTarget(of: job, target, to: &output)
    output.append(text: ",\"attempts\":")
    output.append(decimal: Int64(record.attempts))
    output.append(text: record.isAmbiguous ? ",\"ambiguous\":true" : ",\"ambiguous\":false")
    output.append(text: record.isSuppressed ? ",\"suppressed\":true" : ",\"suppressed\":false")
    output.append(text: ",\"unregistered_at\":")
    OutcomeWriter.append(record.unregisteredAt, to: &output)
    output.append(text: ",\"enqueued_at\":")
    OutcomeWriter.append(record.enqueuedAt, to: &output)
    output.append(text: ",\"received_at\":")
    output.append(decimal: record.receivedAt)
    output.append(text: ",\"sent_at\":")
    OutcomeWriter.append(record.sentAt, to: &output)
    output.append(text: ",\"completed_at\":")
    output.append(decimal: record.completedAt)
    output.append(bytes: workerField.span)
    if !job.parentID.isEmpty {
      output.append(text: ",\"parent_id\":")
      output.append(jsonString: job.bytes.span.extracting(job.parentID.range))
    }
    if !job.activity.isEmpty {
      output.append(text: ",\"activity\":")
      output.append(jsonString: job.bytes.span.extracting(job.activity.range))
      if job.revision > 0 {
        output.append(text: ",\"revision\":")
        output.append(decimal: Int64(job.revision))
      }
    }
    if record.outcome == .throttled, record.isSuppressed { output.append(text: ",\"cause\":\"superseded\"") }
    if let summary = record.summary {
      output.append(text: ",\"summary\":")
      summary.append(to: &output)
      if record.isCancelled { output.append(text: ",\"cancelled\":true") }
    }
    output.append(text: ",\"meta\":")
    if job.meta.isEmpty {
      output.append(text: "null")
    } else {
      output.append(bytes: job.bytes.span.extracting(job.meta.range))
    }
    output.append(ASCII.closeBrace)
  }

  /// An upper bound of the outcome's length. This room is reserved at once; the next outcomes use most of it.
  private func countMaximum(_ record: borrowing OutcomeRecord, of job: borrowing PushJob, _ target: Int?) -> Int {
    // Keys, words and numbers together stay below 800 bytes.
    var count = 800 + workerField.count + Int(job.meta.count)
    count += JSONText.countMaximum(Int(job.id.count)) + JSONText.countMaximum(Int(job.app.count))
    count += JSONText.countMaximum(Int(job.topic.count)) + JSONText.countMaximum(Int(job.pushTypeName.count))
    count += JSONText.countMaximum(Int(job.parentID.count)) + JSONText.countMaximum(Int(job.activity.count))
    // A name and a number for each end.
    if record.summary != nil { count += 512 }
    if let detail = record.detail { count += JSONText.countMaximum(detail.utf8.count) }
    if case .other(let text) = record.reason { count += JSONText.countMaximum(text.utf8.count) }
    if let target { count += JobRewriter.targetCountMaximum(of: job, target) } else { count += Int(job.to.count) }
    return count
  }

  /// Appends `<outcome>.<environment>.<app>`, at most 255 bytes. A job without an app uses `unknown`; a byte that no app can have becomes
  /// `_`.
  package static func appendRoutingKey(_ outcome: Outcome, of job: borrowing PushJob, to output: inout [UInt8]) {
    let start = output.count
    output.append(text: outcome.name)
    output.append(ASCII.dot)
    output.append(text: job.environment.name)
    output.append(ASCII.dot)
    if job.app.isEmpty { output.append(text: "unknown") }
    for index in job.app.range where output.count - start < Limits.routingKeyBytesMaximum {
      let byte = job.bytes[index]
      output.append(byte > ASCII.space && byte < 0x7F ? byte : UInt8(ascii: "_"))
    }
  }

  private func appendTarget(of job: borrowing PushJob, _ target: Int?, to output: inout OutputSpan<UInt8>) {
    if let target {
      JobRewriter.appendTarget(of: job, target, to: &output)
    } else if job.to.isEmpty || job.to.count > Limits.invalidTargetBytesMaximum {
      output.append(text: "null")
    } else {
      output.append(bytes: job.bytes.span.extracting(job.to.range))
    }
  }

  private static func append(
    stringOrNull range: ByteRange, of job: borrowing PushJob, to output: inout OutputSpan<UInt8>
  ) {
    if range.isEmpty {
      output.append(text: "null")
    } else {
      output.append(jsonString: job.bytes.span.extracting(range.range))
    }
  }

  private static func append(_ number: Int64?, to output: inout OutputSpan<UInt8>) {
    if let number { output.append(decimal: number) } else { output.append(text: "null") }
  }
}
