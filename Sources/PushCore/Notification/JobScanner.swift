/// The one pass over a job's bytes: JSON, keys, types. `JobParser` checks the rules between fields.
struct JobScanner: Sendable {
  private let keys = KeyTable(JobKey.allCases.map(\.name))
  private let targetKinds = KeyTable(JobScanner.targetKindNames)
  private let payload = PayloadScanner()

  /// In the order of `PushJob.TargetKind`.
  private static let targetKindNames = [
    "token", "tokens", "channel", "activity", "devices", "users", "segment", "page",
  ]
  private static let targetRule =
    "must be an object with one of \(targetKindNames.dropLast().joined(separator: ", "))"

  /// Reads a whole job. A wrong type becomes `fields.fault`; broken JSON is thrown.
  func scan(_ bytes: Span<UInt8>, _ fields: inout JobFields, _ targets: inout [ByteRange]) throws(JSONError) {
    var scanner = JSONScanner()
    if try scanner.beginObject(bytes) {
      repeat {
        let name = try scanner.key(bytes)
        let first = scanner.peek(bytes)
        guard let index = keys.index(bytes, name), let key = JobKey(rawValue: UInt8(truncatingIfNeeded: index)) else {
          unknownKey(bytes, name, &fields)
          try scanner.skipValue(bytes)
          continue
        }
        guard fields.seen & key.bit == 0 else {
          fields.fail(key.name, "must be there once, not twice")
          try scanner.skipValue(bytes)
          continue
        }
        fields.seen |= key.bit
        try value(bytes, &scanner, key, first, &fields, &targets)
      } while try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  private func value(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: JobKey, _ first: UInt8, _ fields: inout JobFields,
    _ targets: inout [ByteRange]
  ) throws(JSONError) {
    switch key {
    case .id: fields.id = try string(bytes, &scanner, key, first, &fields)
    case .app: fields.app = try string(bytes, &scanner, key, first, &fields)
    case .pushType: fields.pushType = try string(bytes, &scanner, key, first, &fields)
    case .environment: fields.environment = try string(bytes, &scanner, key, first, &fields)
    case .topic: fields.topic = try string(bytes, &scanner, key, first, &fields)
    case .credential: fields.credential = try string(bytes, &scanner, key, first, &fields)
    case .collapseID: fields.collapseID = try string(bytes, &scanner, key, first, &fields)
    case .version:
      let start = scanner.position
      let version = try integer(bytes, &scanner, key, first, &fields)
      if let version, version != 1 { fields.fail("version", "must be 1", bytes, valueAt: start) }
    case .priority: fields.priority = try integer(bytes, &scanner, key, first, &fields)
    case .expiration: fields.expiration = try integer(bytes, &scanner, key, first, &fields)
    case .sequence: fields.sequence = try integer(bytes, &scanner, key, first, &fields)
    case .tokenRegisteredAt: fields.tokenRegisteredAt = try integer(bytes, &scanner, key, first, &fields)
    case .to: try target(bytes, &scanner, first, &fields, &targets)
    case .meta:
      guard try expect(bytes, &scanner, key, first, ASCII.openBrace, "must be an object", &fields) else { return }
      let start = scanner.position
      try scanner.skipValue(bytes)
      let range = ByteRange(start: start, count: scanner.position &- start)
      if range.count > Limits.metaBytesMaximum {
        fields.fail("meta", "must be at most \(Limits.metaBytesMaximum) bytes, not \(range.count)")
      } else {
        fields.meta = range
      }
    case .payload:
      guard try expect(bytes, &scanner, key, first, ASCII.openBrace, "must be an object", &fields) else { return }
      let start = scanner.position
      try payload.scan(bytes, &scanner, &fields.facts)
      fields.payload = ByteRange(start: start, count: scanner.position &- start)
    case .dryRun:
      let start = scanner.position
      try scanner.skipValue(bytes)
      fields.isDryRun = bytes[start] == UInt8(ascii: "t")
      if !fields.isDryRun, bytes[start] != UInt8(ascii: "f") {
        fields.fail(key.name, "must be true or false", bytes, valueAt: start)
      }
    case .parentID: fields.parentID = try string(bytes, &scanner, key, first, &fields)
    case .activity: fields.activity = try string(bytes, &scanner, key, first, &fields)
    case .fallback:
      guard try expect(bytes, &scanner, key, first, ASCII.openBrace, JobScanner.fallbackRule, &fields) else { return }
      try fallback(bytes, &scanner, &fields)
    case .revision: fields.revision = try integer(bytes, &scanner, key, first, &fields)
    case .leave: fields.leave = try integer(bytes, &scanner, key, first, &fields)
    }
  }

  /// Whether the value starts with the right character; if not, skips it and keeps the fault.
  @inline(__always)
  private func expect(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: JobKey, _ first: UInt8, _ wanted: UInt8, _ rule: String,
    _ fields: inout JobFields
  ) throws(JSONError) -> Bool {
    if first == wanted { return true }
    let start = scanner.position
    try scanner.skipValue(bytes)
    fields.fail(key.name, rule, bytes, valueAt: start)
    return false
  }

  @inline(__always)
  private func string(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: JobKey, _ first: UInt8, _ fields: inout JobFields
  ) throws(JSONError) -> JSONString? {
    guard try expect(bytes, &scanner, key, first, ASCII.quote, "must be a string", &fields) else { return nil }
    return try scanner.string(bytes)
  }

  private func integer(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: JobKey, _ first: UInt8, _ fields: inout JobFields
  ) throws(JSONError) -> Int64? {
    let start = scanner.position
    if first == ASCII.minus || first &- ASCII.zero < 10 {
      if let integer = try scanner.number(bytes).whole(in: bytes) { return integer }
    } else {
      try scanner.skipValue(bytes)
    }
    fields.fail(key.name, "must be an integer", bytes, valueAt: start)
    return nil
  }

  // MARK: to

  private func target(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ first: UInt8, _ fields: inout JobFields,
    _ targets: inout [ByteRange]
  ) throws(JSONError) {
    let rule = JobScanner.targetRule
    guard try expect(bytes, &scanner, .to, first, ASCII.openBrace, rule, &fields) else { return }
    let start = scanner.position
    var keyCount = 0
    if try scanner.beginObject(bytes) {
      repeat {
        let name = try scanner.key(bytes)
        let first = scanner.peek(bytes)
        keyCount &+= 1
        if let index = targetKinds.index(bytes, name), let kind = PushJob.TargetKind(rawValue: UInt8(index)),
          keyCount == 1
        {
          fields.targetKind = kind
          try targetValue(bytes, &scanner, kind, first, &fields, &targets)
        } else if fields.targetKind == .page {
          try pagePart(bytes, &scanner, name, &fields, &targets)
        } else {
          if keyCount == 1 {
            let shown = JobError.describe(bytes, key: name)
            fields.fail("to.\(shown)", "is not a kind of target; \(rule)")
          }
          try scanner.skipValue(bytes)
        }
      } while try scanner.nextMember(bytes)
    }
    fields.to = ByteRange(start: start, count: scanner.position &- start)
    if keyCount != 1, fields.targetKind != .page {
      fields.fail("to", "must hold exactly one kind of target, not \(keyCount)")
    }
  }

  private func targetValue(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ kind: PushJob.TargetKind, _ first: UInt8,
    _ fields: inout JobFields, _ targets: inout [ByteRange]
  ) throws(JSONError) {
    let start = scanner.position
    switch kind {
    case .token, .channel, .segment, .activity:
      if first == ASCII.quote {
        targets.append(try scanner.string(bytes).range)
      } else {
        try scanner.skipValue(bytes)
        fields.fail("to.\(kind)", "must be a string", bytes, valueAt: start)
      }
    case .tokens, .devices, .users:
      guard first == ASCII.openBracket else {
        try scanner.skipValue(bytes)
        fields.fail("to.\(kind)", "must be an array of strings", bytes, valueAt: start)
        return
      }
      try strings(bytes, &scanner, kind, &fields, &targets)
    case .page:
      fields.page = first &- ASCII.zero < 10 ? try scanner.number(bytes).integer : nil
      if fields.page == nil { try scanner.skipValue(bytes) }
    }
  }

  private func strings(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ kind: PushJob.TargetKind, _ fields: inout JobFields,
    _ targets: inout [ByteRange]
  ) throws(JSONError) {
    var count = 0
    if scanner.beginArray(bytes) {
      repeat {
        let first = scanner.peek(bytes)
        let start = scanner.position
        if first == ASCII.quote {
          let token = try scanner.string(bytes)
          if count < Limits.targetsMaximum { targets.append(token.range) }
        } else {
          try scanner.skipValue(bytes)
          fields.fail("to.\(kind)[\(count)]", "must be a string", bytes, valueAt: start)
        }
        count &+= 1
      } while try scanner.nextElement(bytes)
    }
    if count < 1 || count > Limits.targetsMaximum {
      fields.fail("to.\(kind)", "must hold 1 to \(Limits.targetsMaximum) \(kind), not \(count)")
    }
  }

  /// A member of a page's `to` after its number. A malformed page keeps no number, and `JobParser` refuses it.
  private func pagePart(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ name: JSONString, _ fields: inout JobFields,
    _ targets: inout [ByteRange]
  ) throws(JSONError) {
    let part = bytes.extracting(name.range.range)
    let first = scanner.peek(bytes)
    if part.equals("ordinals"), first == ASCII.openBracket, targets.isEmpty {
      guard scanner.beginArray(bytes) else { return }
      repeat {
        let first = scanner.peek(bytes)
        guard first &- ASCII.zero < 10 else {
          try scanner.skipValue(bytes)
          fields.page = nil
          continue
        }
        let number = try scanner.number(bytes)
        if number.integer.flatMap(UInt32.init(exactly:)) == nil { fields.page = nil }
        if targets.count <= AudiencePage.devicesMaximum { targets.append(number.range) }
      } while try scanner.nextElement(bytes)
    } else if part.equals("late"), first == ASCII.quote {
      fields.late = try scanner.string(bytes)
    } else if part.equals("fingerprints"), first == ASCII.quote {
      fields.fingerprints = try scanner.string(bytes).range
    } else if part.equals("position"), first &- ASCII.zero < 10, let position = try scanner.number(bytes).integer {
      fields.position = position
    } else if part.equals("epoch"), first &- ASCII.zero < 10, let epoch = try scanner.number(bytes).integer {
      fields.epoch = epoch
    } else {
      try scanner.skipValue(bytes)
      fields.page = nil
    }
  }

  private static let fallbackRule = "must be an object with title and body, each a string"

  private func fallback(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ fields: inout JobFields
  ) throws(JSONError) {
    let start = scanner.position
    var title: ByteRange?
    var body: ByteRange?
    var isRight = true
    if try scanner.beginObject(bytes) {
      repeat {
        let name = try scanner.key(bytes)
        let part = bytes.extracting(name.range.range)
        let first = scanner.peek(bytes)
        let place = scanner.position
        try scanner.skipValue(bytes)
        let value = ByteRange(start: place, count: scanner.position &- place)
        if part.equals("title"), first == ASCII.quote, title == nil {
          title = value
        } else if part.equals("body"), first == ASCII.quote, body == nil {
          body = value
        } else {
          isRight = false
        }
      } while try scanner.nextMember(bytes)
    }
    if let title, let body, isRight {
      fields.fallback = (title, body)
    } else {
      fields.fail("fallback", JobScanner.fallbackRule, bytes, valueAt: start)
    }
  }

  private func unknownKey(_ bytes: Span<UInt8>, _ name: JSONString, _ fields: inout JobFields) {
    guard fields.fault == nil else { return }
    let shown = JobError.describe(bytes, key: name)
    let text = String(decoding: JSONEscape.unescaped(name.range, of: bytes), as: UTF8.self)
    let nearest = EditDistance.nearest(to: text, among: JobKey.ofProducers.map(\.name))
    let hint = nearest.map { "; did you mean \($0)?" } ?? ""
    fields.fail(shown, "is not a key of a job\(hint)")
  }
}
