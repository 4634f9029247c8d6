/// Edits a payload: only what `ActivityEdits` names changes.
extension ActivityPayload {
  /// Bytes that replace others.
  private struct Edit {
    var range: Range<Int>
    var bytes: [UInt8]
  }

  /// The payload to send to APNs.
  /// - Throws: what cannot be written, as the detail of an invalid job.
  package func edited(_ edits: ActivityEdits) throws(JobError) -> [UInt8] {
    var changes: [Edit] = []
    var members: [[UInt8]] = []
    set(.timestamp, ActivityPayload.decimal(edits.timestamp), &changes, &members)
    if event == .end {
      if let contentState = edits.contentState, self[.contentState] == nil {
        set(.contentState, contentState, &changes, &members)
      }
    } else if let seconds = edits.staleAfterSeconds, !hasStaleDate {
      set(.staleDate, ActivityPayload.decimal(edits.timestamp + seconds), &changes, &members)
    }
    if event == .start {
      if let channel = edits.inputPushChannel {
        guard !hasUpdateWay else {
          let key = self[.inputPushToken] == nil ? Key.inputPushChannel : .inputPushToken
          throw JobError(
            field: key.path, rule: "must not be there: the activity's updates come on a channel that Herald names")
        }
        set(.inputPushChannel, ActivityPayload.string(channel), &changes, &members)
      }
      if let (id, attribute) = edits.id { try place(id, attribute, &changes, &members) }
    }
    if !members.isEmpty {
      changes.append(
        Edit(range: apsStart..<apsStart, bytes: ActivityPayload.join(members, beforeOthers: !apsIsEmpty)))
    }
    return apply(changes)
  }

  /// A start's payload, edited before, as devices get it whose updates come on a broadcast channel.
  /// - Returns: nil: it says itself how updates come, or is no start.
  package func subscribing(to channel: ChannelID) -> [UInt8]? {
    guard event == .start, let value = self[.timestamp],
      let timestamp = Int64(String(decoding: bytes[value.range.range], as: UTF8.self))
    else { return nil }
    var edits = ActivityEdits(timestamp: timestamp)
    edits.inputPushChannel = channel.text
    return try? edited(edits)
  }

  /// An end's payload, edited before, with the content state to show last.
  /// - Returns: nil: it has one, or is no end.
  func showing(_ contentState: [UInt8]) -> [UInt8]? {
    guard event == .end, self[.contentState] == nil, let value = self[.timestamp],
      let timestamp = Int64(String(decoding: bytes[value.range.range], as: UTF8.self))
    else { return nil }
    var edits = ActivityEdits(timestamp: timestamp)
    edits.contentState = contentState
    return try? edited(edits)
  }

  /// Whether APNs takes a payload of this length, which edits may have made too long.
  package static func check(length count: Int, isBroadcast: Bool) throws(JobError) {
    let maximum =
      isBroadcast
      ? PushTypeRules.broadcastPayloadBytesMaximum
      : PushTypeRules.table[Int(PushType.liveactivity.rawValue)].payloadBytesMaximum
    guard count > maximum else { return }
    throw JobError(
      .payloadLength,
      """
      must be at most \(maximum) bytes for \(isBroadcast ? "a broadcast" : "liveactivity"), not \(count) with what Herald \
      writes into it
      """)
  }

  // MARK: - Members of aps

  /// Sets a key of `aps`: replaces its value, or adds it before the others.
  private func set(_ key: Key, _ value: [UInt8], _ changes: inout [Edit], _ members: inout [[UInt8]]) {
    if let written = written(key) {
      changes.append(Edit(range: written.range.range, bytes: value))
    } else {
      members.append(ActivityPayload.member(key.name, value))
    }
  }

  private func apply(_ changes: [Edit]) -> [UInt8] {
    var output: [UInt8] = []
    output.reserveCapacity(bytes.count + changes.reduce(0) { $0 + $1.bytes.count })
    var position = 0
    for change in changes.sorted(by: { $0.range.lowerBound < $1.range.lowerBound }) {
      output.append(contentsOf: bytes[position..<change.range.lowerBound])
      output.append(contentsOf: change.bytes)
      position = change.range.upperBound
    }
    output.append(contentsOf: bytes[position...])
    return output
  }

  // MARK: - The id

  /// Writes the id into `attributes`; creates missing objects on the path.
  private func place(
    _ id: ActivityID, _ attribute: ActivityIDAttribute, _ changes: inout [Edit], _ members: inout [[UInt8]]
  ) throws(JobError) {
    let value = ActivityPayload.string(id.text)
    guard let attributes = self[.attributes] else {
      set(.attributes, ActivityPayload.object(attribute.path[...], value), &changes, &members)
      return
    }
    var start = Int(attributes.range.start)
    var path = attribute.path[...]
    while let key = path.popFirst() {
      let (found, isEmpty, isTwice) = member(key, ofObjectAt: start)
      let name = "\(Key.attributes.path).\(attribute.path.dropLast(path.count).joined(separator: "."))"
      if isTwice { throw ActivityPayload.twice(name) }
      guard let found else {
        let text = ActivityPayload.member(key, ActivityPayload.object(path, value))
        changes.append(
          Edit(range: start + 1..<start + 1, bytes: ActivityPayload.join([text], beforeOthers: !isEmpty)))
        return
      }
      let first = bytes[found.lowerBound]
      if first == UInt8(ascii: "n") || path.isEmpty && first == ASCII.quote {
        changes.append(Edit(range: found, bytes: ActivityPayload.object(path, value)))
        return
      }
      guard first == ASCII.openBrace, !path.isEmpty else {
        let seen = JobError.describe(bytes.span, valueAt: found.lowerBound)
        throw JobError(
          field: name,
          rule: """
            must be \(path.isEmpty ? "a string" : "an object"), not \(seen): the activity's id is written to \(attribute), \
            as activities.id_attribute says
            """)
      }
      start = found.lowerBound
    }
  }

  /// A member of an object that was scanned before: the place of its value, whether the object is empty, and whether
  /// the key is there twice.
  private func member(_ key: String, ofObjectAt start: Int) -> (value: Range<Int>?, isEmpty: Bool, isTwice: Bool) {
    var scanner = JSONScanner(position: start)
    let bytes = self.bytes.span
    var found: Range<Int>?
    var isTwice = false
    do throws(JSONError) {
      guard try scanner.beginObject(bytes) else { return (nil, true, false) }
      repeat {
        let name = try scanner.key(bytes)
        let isWanted = JSONEscape.unescaped(name.range, of: bytes).elementsEqual(key.utf8)
        _ = scanner.peek(bytes)
        let start = scanner.position
        try scanner.skipValue(bytes)
        guard isWanted else { continue }
        if found != nil { isTwice = true }
        found = start..<scanner.position
      } while try scanner.nextMember(bytes)
    } catch {
      preconditionFailure("the payload was scanned before")
    }
    return (found, false, isTwice)
  }

  // MARK: - Text

  private static func decimal(_ number: Int64) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(decimal: number)
    return bytes
  }

  private static func string(_ text: String) -> [UInt8] {
    var bytes: [UInt8] = []
    bytes.append(jsonString: text)
    return bytes
  }

  private static func member(_ key: String, _ value: [UInt8]) -> [UInt8] {
    string(key) + [ASCII.colon] + value
  }

  /// Wraps the value in one object for each key.
  private static func object(_ path: ArraySlice<String>, _ value: [UInt8]) -> [UInt8] {
    path.reversed().reduce(value) { inner, key in [ASCII.openBrace] + member(key, inner) + [ASCII.closeBrace] }
  }

  private static func join(_ members: [[UInt8]], beforeOthers: Bool) -> [UInt8] {
    Array(members.joined(separator: [ASCII.comma])) + (beforeOthers ? [ASCII.comma] : [])
  }
}
