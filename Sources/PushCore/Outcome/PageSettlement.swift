/// What a lane tells of a page, or of a copy of a part of it, before it acknowledges the delivery: how its devices ended.
///
/// The message is applied by position, so that it may come twice. Devices that wait in a retry queue are open in it: their copies settle
/// them.
package struct PageSettlement: Hashable, Sendable {
  /// The parent's id.
  package var parentID: [UInt8]
  package var page: UInt32
  /// The first device's position in the page.
  package var position: Int
  /// `PageEnd` letters from `position` on, `PageEnd.open` for those that have not ended.
  package var ends: [UInt8]
  /// Which devices they are: the registry's epoch, a colon, and their ordinals with commas. Redis may have another page of this number by
  /// then, for which this tells nothing. Empty: that is not checked.
  package var ordinals: [UInt8]

  private static let head = "{\"settles\":"

  package init(parentID: [UInt8], page: UInt32, position: Int, ends: [UInt8], ordinals: [UInt8] = []) {
    self.parentID = parentID
    self.page = page
    self.position = position
    self.ends = ends
    self.ordinals = ordinals
  }

  /// Appends the settlement of a page's delivery. `ends`: a letter for each ordinal of its body.
  package static func append(_ job: borrowing PushJob, ends: [UInt8], to output: inout [UInt8]) {
    output.append(text: head)
    output.append(addingCapacity: JSONText.countMaximum(Int(job.parentID.count))) {
      $0.append(jsonString: job.bytes.span.extracting(job.parentID.range))
    }
    output.append(text: ",\"page\":")
    output.append(decimal: Int64(job.page.number))
    output.append(text: ",\"position\":")
    output.append(decimal: Int64(job.page.position))
    output.append(text: ",\"ends\":\"")
    output.append(contentsOf: ends)
    output.append(text: "\",\"ordinals\":\"")
    appendOrdinals(of: job, to: &output)
    output.append(text: "\"}")
  }

  /// Appends the `ordinals` of a page's settlement.
  package static func appendOrdinals(of job: borrowing PushJob, to output: inout [UInt8]) {
    output.append(decimal: Int64(clamping: job.page.epoch))
    output.append(UInt8(ascii: ":"))
    for byte in job.bytes[job.page.written.range] where byte &- ASCII.zero < 10 || byte == ASCII.comma {
      output.append(byte)
    }
  }

  /// Whether a message of the expansion queue is a settlement: a job has no such key.
  package static func isSettlement(_ body: Span<UInt8>) -> Bool {
    body.count >= head.utf8.count && body.extracting(0..<head.utf8.count).equals(head)
  }

  /// nil: it is none that a lane writes.
  package init?(_ body: Span<UInt8>) {
    guard let read = try? PageSettlement.read(body) else { return nil }
    self = read
    let isSound =
      !parentID.isEmpty && parentID.count <= Limits.idBytesMaximum && !ends.isEmpty && position >= 0
      && position + ends.count <= AudiencePage.devicesMaximum
      && ends.allSatisfy { $0 == PageEnd.open || PageEnd(letter: $0) != nil }
    if !isSound { return nil }
  }

  private static func read(_ body: Span<UInt8>) throws(JSONError) -> PageSettlement? {
    var found = PageSettlement(parentID: [], page: 0, position: 0, ends: [])
    var scanner = JSONScanner()
    guard try scanner.beginObject(body) else { return nil }
    repeat {
      let key = try scanner.key(body)
      let name = body.extracting(key.range.range)
      let first = scanner.peek(body)
      if name.equals("settles") || name.equals("ends") || name.equals("ordinals") {
        guard first == ASCII.quote else { return nil }
        let text = JSONEscape.unescaped(try scanner.string(body).range, of: body)
        if name.equals("settles") {
          found.parentID = text
        } else if name.equals("ends") {
          found.ends = text
        } else {
          found.ordinals = text
        }
      } else if name.equals("page") || name.equals("position") {
        guard first &- ASCII.zero < 10, let number = try scanner.number(body).integer else { return nil }
        if name.equals("page"), let page = UInt32(exactly: number) {
          found.page = page
        } else if name.equals("position"), number < AudiencePage.devicesMaximum {
          found.position = Int(number)
        } else {
          return nil
        }
      } else {
        // Of a newer version.
        try scanner.skipValue(body)
      }
    } while try scanner.nextMember(body)
    try scanner.end(body)
    return found
  }
}
