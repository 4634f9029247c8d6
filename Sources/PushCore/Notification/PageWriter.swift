/// Writes the pages of an audience's job: the job's own bytes, but for what names the page.
package enum PageWriter {
  /// Appends the body of one page.
  /// - Parameters:
  ///   - job: parsed, with an audience.
  ///   - ordinals: of its devices in decimal, ascending, with commas between them.
  package static func append(_ job: borrowing PushJob, number: UInt32, ordinals: [UInt8], to output: inout [UInt8]) {
    precondition(job.targetKind.isAudience, "only an audience has pages")
    let bytes = job.bytes.span
    guard let open = (0..<job.bodyCount).first(where: { bytes[$0] == ASCII.openBrace }) else {
      preconditionFailure("a parsed job is an object")
    }
    output.reserveCapacity(output.count + job.bodyCount + ordinals.count + 1024)
    output.append(ByteRange(start: 0, count: open + 1), of: job.bytes)
    output.append(text: "\"parent_id\":")
    if job.idText.isEmpty {
      // The message id stood for it, which a page's own body must not rely on.
      let start = output.count
      output.append(addingCapacity: JSONText.countMaximum(Int(job.id.count))) {
        $0.append(jsonString: job.bytes.span.extracting(job.id.range))
      }
      let text = output[start...].dropLast()
      output.append(text: ",\"id\":")
      output.append(contentsOf: text)
      output.append(text: "/\(number)\"")
    } else {
      output.append(ASCII.quote)
      output.append(job.idText, of: job.bytes)
      output.append(ASCII.quote)
    }
    output.append(ASCII.comma)
    // What is replaced, in the order in which it stands.
    let edits: [(range: ByteRange, text: [UInt8])] = [
      (ByteRange(start: job.idText.range.upperBound, count: 0), job.idText.isEmpty ? [] : Array("/\(number)".utf8)),
      (job.to, Array("{\"page\":\(number),\"ordinals\":[".utf8) + ordinals + Array("]}".utf8)),
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
