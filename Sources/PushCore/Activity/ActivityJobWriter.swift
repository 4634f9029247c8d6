/// Writes an activity's job for delivery: the job's own bytes, with the changes of `ActivityEdits` in its payload, and
/// with the fields that the producer left to Herald at the front.
package enum ActivityJobWriter {
  /// After ten minutes without delivery a start is too old: the activity's first state would be that old.
  private static let startExpirationSeconds: Int64 = 600
  /// Stands for the devices of an end that is kept: a late push names its own.
  private static let nobody = Array(#"{"devices":["-"]}"#.utf8)

  /// Appends the body.
  /// - Parameters:
  ///   - job: parsed; names an activity, and has no revision.
  ///   - payload: the job's payload.
  ///   - edited: the payload to send.
  ///   - isLeave: the revision ends the activity for some devices only.
  ///   - isForNobody: leaves out whom the job is for, so that no device is named where the body is kept.
  ///   - now: Unix seconds.
  package static func append(
    _ job: borrowing PushJob, _ payload: ActivityPayload, edited: [UInt8], _ revision: ActivityRevision, isLeave: Bool,
    isForNobody: Bool = false, now: Int64, to output: inout [UInt8]
  ) {
    let bytes = job.bytes.span
    guard let open = (0..<job.bodyCount).first(where: { bytes[$0] == ASCII.openBrace }) else {
      preconditionFailure("a parsed job is an object")
    }
    output.append(ByteRange(start: 0, count: open + 1), of: job.bytes)
    output.append(text: isLeave ? "\"leave\":" : "\"revision\":")
    output.append(decimal: Int64(revision.number))
    if job.activityText.isEmpty {
      output.append(text: ",\"activity\":")
      append(string: bytes.extracting(job.activity.range), to: &output)
    }
    if job.idText.isEmpty {
      // The message id served as the job's id; the writer of a late push from this job does not know it.
      output.append(text: ",\"id\":")
      append(string: bytes.extracting(job.id.range), to: &output)
    }
    if job.priority == nil {
      output.append(text: ",\"priority\":")
      output.append(decimal: Int64(payload.priority(ofJob: nil)))
    }
    if payload.event == .start {
      if job.expiration == nil {
        output.append(text: ",\"expiration\":")
        output.append(decimal: now + startExpirationSeconds)
      }
      if job.collapseID.isEmpty {
        output.append(text: ",\"collapse_id\":")
        appendCollapseID(bytes.extracting(job.activity.range), to: &output)
      }
    }
    output.append(ASCII.comma)
    var edits = [(range: job.payload, text: edited)]
    if isForNobody { edits.append((job.to, nobody)) }
    var place = open + 1
    for edit in edits.sorted(by: { $0.range.start < $1.range.start }) {
      output.append(ByteRange(start: place, count: Int(edit.range.start) - place), of: job.bytes)
      output.append(contentsOf: edit.text)
      place = edit.range.range.upperBound
    }
    output.append(ByteRange(start: place, count: job.bodyCount - place), of: job.bytes)
  }

  /// A kept end with the content state to show last. As it is, if it has one, or would be too large for APNs.
  package static func end(_ body: [UInt8], showing contentState: [UInt8]) -> [UInt8] {
    guard !contentState.isEmpty, let range = payload(of: body.span),
      let edited = (try? ActivityPayload(Array(body[range])))?.showing(contentState),
      (try? ActivityPayload.check(length: edited.count, isBroadcast: false)) != nil
    else { return body }
    return body[..<range.lowerBound] + edited + body[range.upperBound...]
  }

  /// An update or end that was sent before, as another revision; nil: this Herald did not write it.
  package static func again(_ body: [UInt8], as revision: ActivityRevision) -> [UInt8]? {
    guard let open = body.firstIndex(of: ASCII.openBrace) else { return nil }
    let name = Array("\"revision\":".utf8)
    guard body.dropFirst(open + 1).starts(with: name) else { return nil }
    let start = open + 1 + name.count
    let rest = body[start...].drop { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    guard rest.startIndex > start else { return nil }
    var again = Array(body[..<start])
    again.append(decimal: Int64(revision.number))
    again += rest
    guard let range = payload(of: again.span),
      let edited = try? ActivityPayload(Array(again[range])).edited(ActivityEdits(timestamp: revision.timestamp))
    else { return nil }
    return Array(again[..<range.lowerBound]) + edited + Array(again[range.upperBound...])
  }

  private static func payload(of job: Span<UInt8>) -> Range<Int>? {
    var scanner = JSONScanner()
    do throws(JSONError) {
      guard try scanner.beginObject(job) else { return nil }
      repeat {
        let name = try scanner.key(job)
        _ = scanner.peek(job)
        let start = scanner.position
        try scanner.skipValue(job)
        if JSONEscape.unescaped(name.range, of: job).elementsEqual("payload".utf8) { return start..<scanner.position }
      } while try scanner.nextMember(job)
    } catch {
      // Another program wrote it.
    }
    return nil
  }

  /// So that a device that is offline gets only one start of an activity.
  private static func appendCollapseID(_ id: Span<UInt8>, to output: inout [UInt8]) {
    if id.count <= Limits.collapseIDBytesMaximum, HeaderText.isValue(id) { return append(string: id, to: &output) }
    var hash = SipHash128(key0: 0x6865_7261_6C64_2061, key1: 0x6374_6976_6974_7943)
    hash.append(UInt64(id.count))
    hash.append(padding: id)
    let (first, second) = hash.finish()
    output.append(ASCII.quote)
    for word in [first, second] {
      for shift in stride(from: UInt64(60), through: 0, by: -4) {
        output.append(Hex.digit(UInt8(truncatingIfNeeded: word >> shift) & 15))
      }
    }
    output.append(ASCII.quote)
  }

  private static func append(string text: Span<UInt8>, to output: inout [UInt8]) {
    output.append(addingCapacity: JSONText.countMaximum(text.count)) { $0.append(jsonString: text) }
  }
}
