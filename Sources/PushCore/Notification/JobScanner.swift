/// The one pass over a job's bytes: JSON, keys, types. What fields mean together is `JobParser`'s.
struct JobScanner: Sendable {
  private let keys = KeyTable(JobKey.allCases.map(\.name))
  private let targetKinds = KeyTable(JobScanner.targetKindNames)
  private let payload = PayloadScanner()

  /// In the order of `PushJob.TargetKind`.
  private static let targetKindNames = ["token", "tokens", "channel", "activity", "devices", "users", "segment"]
  private static let targetRule = "must be an object with one of \(targetKindNames.joined(separator: ", "))"

  /// Reads a whole job. Types that are wrong become `fields.fault`; broken JSON is thrown.
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
    }
  }

  /// Whether the value begins as it must; where not, it is passed and the fault kept.
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
      if let integer = try scanner.number(bytes).integer { return integer }
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
    if keyCount != 1 { fields.fail("to", "must hold exactly one kind of target, not \(keyCount)") }
  }

  private func targetValue(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ kind: PushJob.TargetKind, _ first: UInt8,
    _ fields: inout JobFields, _ targets: inout [ByteRange]
  ) throws(JSONError) {
    let start = scanner.position
    switch kind {
    case .token, .channel:
      if first == ASCII.quote {
        targets.append(try scanner.string(bytes).range)
      } else {
        try scanner.skipValue(bytes)
        fields.fail("to.\(kind)", "must be a string", bytes, valueAt: start)
      }
    case .tokens:
      guard first == ASCII.openBracket else {
        try scanner.skipValue(bytes)
        fields.fail("to.tokens", "must be an array of strings", bytes, valueAt: start)
        return
      }
      try tokens(bytes, &scanner, &fields, &targets)
    case .activity, .devices, .users, .segment:
      try scanner.skipValue(bytes)
      fields.fail("to.\(kind)", "is a kind of target that this version cannot send to; give token, tokens or channel")
    }
  }

  private func tokens(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ fields: inout JobFields, _ targets: inout [ByteRange]
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
          fields.fail("to.tokens[\(count)]", "must be a string", bytes, valueAt: start)
        }
        count &+= 1
      } while try scanner.nextElement(bytes)
    }
    if count < 1 || count > Limits.targetsMaximum {
      fields.fail("to.tokens", "must hold 1 to \(Limits.targetsMaximum) tokens, not \(count)")
    }
  }

  private func unknownKey(_ bytes: Span<UInt8>, _ name: JSONString, _ fields: inout JobFields) {
    guard fields.fault == nil else { return }
    let shown = JobError.describe(bytes, key: name)
    let text = String(decoding: JSONEscape.unescaped(name.range, of: bytes), as: UTF8.self)
    let nearest = EditDistance.nearest(to: text, among: JobKey.allCases.map(\.name))
    let hint = nearest.map { "; did you mean \($0)?" } ?? ""
    fields.fail(shown, "is not a key of a job\(hint)")
  }
}
