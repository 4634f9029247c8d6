/// Writes the pages of an audience's job: the job's own bytes, except for the fields that identify the page.
package enum PageWriter {
  /// Appends the body of one page.
  /// - Parameters:
  ///   - job: parsed, with an audience.
  ///   - ordinals: of its devices in decimal, ascending, with commas between them.
  ///   - fingerprints: of these devices (`DeviceFingerprints`); empty: they have none.
  ///   - epoch: of the ordinals; 0: none.
  ///   - payload: replaces the job's; nil: it has the job's.
  package static func append(
    _ job: borrowing PushJob, number: UInt32, ordinals: [UInt8], fingerprints: [UInt8] = [], epoch: UInt64,
    payload: [UInt8]? = nil, to output: inout [UInt8]
  ) {
    append(
      job, name: Array("/\(number)".utf8),
      target: target(number: number, ordinals: ordinals, fingerprints: fingerprints, epoch: epoch), payload: payload,
      to: &output)
  }

  /// A page's `to`.
  static func target(number: UInt32, ordinals: [UInt8], fingerprints: [UInt8], epoch: UInt64) -> [UInt8] {
    var target = Array("{\"page\":\(number),\"ordinals\":[".utf8) + ordinals
    target.append(ASCII.closeBracket)
    if epoch != 0 { target += Array(",\"epoch\":\(epoch)".utf8) }
    append(fingerprints: fingerprints, to: &target)
    target.append(ASCII.closeBrace)
    return target
  }

  private static func append(fingerprints: [UInt8], to target: inout [UInt8]) {
    if fingerprints.isEmpty { return }
    target += Array(",\"fingerprints\":\"".utf8) + fingerprints
    target.append(ASCII.quote)
  }

  /// Appends the body of the broadcast of an activity's update or end, beside its pages.
  /// - Parameter start: of a second broadcast, for devices that were started since the first: the word of that start's id.
  package static func append(
    _ job: borrowing PushJob, channel: ChannelID, afterStart start: UInt64? = nil, to output: inout [UInt8]
  ) {
    append(
      job, name: broadcastName(afterStart: start), target: Array("{\"channel\":\"\(channel)\"}".utf8), to: &output)
  }

  /// What follows the id of an update or end in the id of its broadcast.
  package static func broadcastName(afterStart start: UInt64?) -> [UInt8] {
    Array("/channel".utf8) + (start.map { Array("/\(Hex.text($0, count: 16))".utf8) } ?? [])
  }

  /// Appends the body of the page for a late token of an activity.
  /// - Parameters:
  ///   - job: parsed: the activity's newest update or end, as it was sent.
  ///   - device: its id.
  package static func append(
    _ job: borrowing PushJob, late device: String, ordinal: UInt32, fingerprint: UInt32, to output: inout [UInt8]
  ) {
    var text: [UInt8] = []
    text.append(addingCapacity: JSONText.countMaximum(device.utf8.count)) { $0.append(jsonString: device.utf8.span) }
    var target = Array("{\"page\":\(AudiencePage.lateNumber),\"ordinals\":[\(ordinal)],\"late\":".utf8) + text
    append(fingerprints: DeviceFingerprints.text(of: [fingerprint]), to: &target)
    target.append(ASCII.closeBrace)
    append(job, name: Array("/late/".utf8) + text.dropFirst().dropLast(), target: target, to: &output)
  }

  /// - Parameters:
  ///   - name: follows the parent's id; already escaped for a JSON string.
  ///   - target: the page's `to`.
  private static func append(
    _ job: borrowing PushJob, name: [UInt8], target: [UInt8], payload: [UInt8]? = nil, to output: inout [UInt8]
  ) {
    precondition(job.targetKind.isAudience, "only an audience has pages")
    let bytes = job.bytes.span
    guard let open = (0..<job.bodyCount).first(where: { bytes[$0] == ASCII.openBrace }) else {
      preconditionFailure("a parsed job is an object")
    }
    output.reserveCapacity(output.count + job.bodyCount + target.count + (payload?.count ?? 0) + 1024)
    output.append(ByteRange(start: 0, count: open + 1), of: job.bytes)
    output.append(text: "\"parent_id\":")
    if job.idText.isEmpty {
      // The parent's id was in its message properties only; a page's body must have it.
      let start = output.count
      output.append(addingCapacity: JSONText.countMaximum(Int(job.id.count))) {
        $0.append(jsonString: job.bytes.span.extracting(job.id.range))
      }
      let text = output[start...].dropLast()
      output.append(text: ",\"id\":")
      output.append(contentsOf: text)
      output.append(contentsOf: name)
      output.append(ASCII.quote)
    } else {
      output.append(ASCII.quote)
      output.append(job.idText, of: job.bytes)
      output.append(ASCII.quote)
    }
    output.append(ASCII.comma)
    // The replaced parts, in the order of the body.
    let edits: [(range: ByteRange, text: [UInt8])] = [
      (ByteRange(start: job.idText.range.upperBound, count: 0), job.idText.isEmpty ? [] : name),
      (job.to, target), (job.payload, payload ?? []),
    ].sorted { $0.range.start < $1.range.start }
    var place = open + 1
    for edit in edits where !edit.text.isEmpty {
      output.append(ByteRange(start: place, count: Int(edit.range.start) - place), of: job.bytes)
      output.append(contentsOf: edit.text)
      place = edit.range.range.upperBound
    }
    output.append(ByteRange(start: place, count: job.bodyCount - place), of: job.bytes)
  }
}
