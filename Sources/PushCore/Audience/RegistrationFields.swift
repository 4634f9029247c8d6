/// One pass over a registration's bytes: JSON, keys, types. `RegistrationParser` checks the combination of fields.
struct RegistrationFields {
  enum Key: String, CaseIterable {
    case version, kind, at, app, environment, device, user, token
    case pushToStart = "push_to_start"
    case locale
    case osVersion = "os_version"
    case timeZone = "time_zone"
    case tags, activity

    func goes(with kind: Registration.Kind) -> Bool {
      switch self {
      case .version, .kind, .at, .app, .environment, .device: true
      case .user: kind != .activity
      case .token: kind != .forget
      case .activity: kind == .activity
      case .pushToStart, .locale, .osVersion, .timeZone, .tags: kind == .device
      }
    }

    /// null removes it.
    var isRemovable: Bool {
      switch self {
      case .user, .token, .pushToStart, .locale, .osVersion, .timeZone, .tags: true
      case .version, .kind, .at, .app, .environment, .device, .activity: false
      }
    }
  }

  var seen: Set<Key> = []
  var texts: [Key: String] = [:]
  var nulls: Set<Key> = []
  var at: Int64?
  var startTokens: [DeviceRegistration.StartToken] = []
  var tags: [DeviceRegistration.Tag] = []
  /// The first fault.
  var fault: JobError?

  mutating func fail(_ field: String, _ rule: String) {
    if fault == nil { fault = JobError(field: field, rule: rule) }
  }

  /// A device token's or an update token's bytes.
  static func token(_ text: String, _ field: String) throws(JobError) -> [UInt8] {
    let digits = text.utf8.span
    guard Limits.tokenDigitsMinimum...Limits.tokenDigitsMaximum ~= digits.count, let bytes = Hex.bytes(digits) else {
      throw JobError(
        field: field,
        rule: """
          must be \(Limits.tokenDigitsMinimum) to \(Limits.tokenDigitsMaximum) hexadecimal digits, an even number, \
          not "\(JobError.describe(text))"
          """)
    }
    return bytes
  }

  mutating func scan(_ bytes: Span<UInt8>) throws(JSONError) {
    var scanner = JSONScanner()
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let string = try scanner.key(bytes)
      let name = string.text(of: bytes)
      if let key = Key(rawValue: name) {
        if seen.insert(key).inserted {
          try value(key, bytes, &scanner)
        } else {
          fail(name, "must be there once, not twice")
          try scanner.skipValue(bytes)
        }
      } else {
        let known = fault == nil ? Key.allCases.map(\.rawValue) : []
        let hint = EditDistance.nearest(to: name, among: known).map { "; did you mean \($0)?" } ?? ""
        fail(JobError.describe(bytes, key: string), "is not a key of a registration\(hint)")
        try scanner.skipValue(bytes)
      }
      hasMember = try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  private mutating func value(_ key: Key, _ bytes: Span<UInt8>, _ scanner: inout JSONScanner) throws(JSONError) {
    let first = scanner.peek(bytes)
    if first == UInt8(ascii: "n"), key.isRemovable {
      try scanner.literal(bytes)
      nulls.insert(key)
      return
    }
    switch key {
    case .version:
      let start = scanner.position
      if try integer(bytes, &scanner) != 1 {
        fail("version", "must be 1, not \(JobError.describe(bytes, valueAt: start))")
      }
    case .at:
      let start = scanner.position
      at = try integer(bytes, &scanner)
      if at == nil { fail("at", "must be an integer, not \(JobError.describe(bytes, valueAt: start))") }
    case .tags: try readTags(bytes, &scanner)
    case .pushToStart: try readStartTokens(bytes, &scanner)
    case .kind, .app, .environment, .device, .user, .token, .locale, .osVersion, .timeZone, .activity:
      texts[key] = try string(bytes, &scanner, key.rawValue)
    }
  }

  // MARK: - Objects

  private mutating func readStartTokens(_ bytes: Span<UInt8>, _ scanner: inout JSONScanner) throws(JSONError) {
    var types: Set<ByteText> = []
    try members(bytes, &scanner, of: "push_to_start") {
      fields, bytes, scanner, type, path throws(JSONError) in
      if !(1...Limits.attributesTypeBytesMaximum ~= type.utf8.count) {
        fields.fail(path, "is no attributes type: 1 to \(Limits.attributesTypeBytesMaximum) bytes, or * for any")
      }
      if !types.insert(ByteText(type)).inserted { fields.fail(path, "must be there once, not twice") }
      if types.count > DeviceLimits.startTokensMaximum {
        fields.fail("push_to_start", "must have at most \(DeviceLimits.startTokensMaximum) types")
      }
      if scanner.peek(bytes) == UInt8(ascii: "n") {
        try scanner.literal(bytes)
        fields.startTokens.append(DeviceRegistration.StartToken(type: type, token: nil))
      } else if let text = try fields.string(bytes, &scanner, path, orNull: true) {
        do throws(JobError) {
          fields.startTokens.append(
            DeviceRegistration.StartToken(type: type, token: try RegistrationFields.token(text, path)))
        } catch {
          fields.fail(error.field, error.rule)
        }
      }
    }
  }

  private mutating func readTags(_ bytes: Span<UInt8>, _ scanner: inout JSONScanner) throws(JSONError) {
    var names: Set<ByteText> = []
    try members(bytes, &scanner, of: "tags") { fields, bytes, scanner, name, path throws(JSONError) in
      if NameText.fault(name, bytesMaximum: Limits.tagNameBytesMaximum) != nil {
        fields.fail(
          path, "is no tag's name: 1 to \(Limits.tagNameBytesMaximum) bytes without control characters")
      }
      if !names.insert(ByteText(name)).inserted { fields.fail(path, "must be there once, not twice") }
      if names.count > DeviceLimits.tagsMaximum {
        fields.fail("tags", "must have at most \(DeviceLimits.tagsMaximum) tags")
      }
      guard let change = try fields.tagChange(bytes, &scanner, path) else { return }
      fields.tags.append(DeviceRegistration.Tag(name: name, change: change))
    }
  }

  /// nil: invalid.
  private mutating func tagChange(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ path: String
  ) throws(JSONError) -> DeviceRegistration.Tag.Change? {
    let start = scanner.position
    let first = scanner.peek(bytes)
    switch first {
    case UInt8(ascii: "n"):
      try scanner.literal(bytes)
      return .remove
    case UInt8(ascii: "t"), UInt8(ascii: "f"):
      try scanner.literal(bytes)
      return .set(.flag(first == UInt8(ascii: "t")))
    case ASCII.quote:
      return tagText(try string(bytes, &scanner, path), path).map { .set(.text($0)) }
    case ASCII.openBracket:
      return try list(bytes, &scanner, path).map { .set(.list($0)) }
    case ASCII.openBrace:
      return try increment(bytes, &scanner, path).map { .increment($0) }
    case ASCII.minus, ASCII.zero...ASCII.nine:
      return try double(bytes, &scanner, path).map { .set(.number($0)) }
    default:
      try scanner.skipValue(bytes)
      fail(
        path,
        "must be a string, a number, a boolean or a list of strings, not \(JobError.describe(bytes, valueAt: start))")
      return nil
    }
  }

  private mutating func list(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ path: String
  ) throws(JSONError) -> [String]? {
    var members: [String] = []
    var isSound = true
    var count = 0
    var hasElement = scanner.beginArray(bytes)
    while hasElement {
      let text = tagText(try string(bytes, &scanner, "\(path)[\(count)]"), "\(path)[\(count)]")
      count += 1
      if let text, count <= DeviceLimits.listMembersMaximum {
        if !members.contains(where: { $0.hasBytes(of: text) }) { members.append(text) }
      } else {
        isSound = false
      }
      hasElement = try scanner.nextElement(bytes)
    }
    if count > DeviceLimits.listMembersMaximum {
      fail(path, "must have at most \(DeviceLimits.listMembersMaximum) members, not \(count)")
    }
    return isSound ? members : nil
  }

  private mutating func increment(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ path: String
  ) throws(JSONError) -> Double? {
    var value: Double?
    var count = 0
    try members(bytes, &scanner, of: path) { fields, bytes, scanner, name, inner throws(JSONError) in
      count += 1
      let first = scanner.peek(bytes)
      if name == "increment", first == ASCII.minus || first &- ASCII.zero < 10 {
        value = try fields.double(bytes, &scanner, inner)
      } else {
        try scanner.skipValue(bytes)
      }
    }
    guard count == 1, value != nil else {
      fail(path, "must be a value, or an object with increment and a number alone")
      return nil
    }
    return value
  }

  /// Reads an object's members; any other value is a fault.
  private mutating func members(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, of field: String,
    _ body: (
      _ fields: inout RegistrationFields, _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ name: String,
      _ path: String
    ) throws(JSONError) -> Void
  ) throws(JSONError) {
    let start = scanner.position
    guard scanner.peek(bytes) == ASCII.openBrace else {
      try scanner.skipValue(bytes)
      return fail(field, "must be an object or null, not \(JobError.describe(bytes, valueAt: start))")
    }
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let key = try scanner.key(bytes)
      try body(
        &self, bytes, &scanner, key.text(of: bytes), "\(field).\(JobError.describe(bytes, key: key))")
      hasMember = try scanner.nextMember(bytes)
    }
  }

  // MARK: - Values

  private mutating func integer(_ bytes: Span<UInt8>, _ scanner: inout JSONScanner) throws(JSONError) -> Int64? {
    let first = scanner.peek(bytes)
    guard first == ASCII.minus || first &- ASCII.zero < 10 else {
      try scanner.skipValue(bytes)
      return nil
    }
    return try scanner.number(bytes).whole(in: bytes)
  }

  private mutating func string(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ field: String, orNull: Bool = false
  ) throws(JSONError) -> String? {
    let first = scanner.peek(bytes)
    let start = scanner.position
    guard first == ASCII.quote else {
      try scanner.skipValue(bytes)
      fail(field, "must be a string\(orNull ? " or null" : ""), not \(JobError.describe(bytes, valueAt: start))")
      return nil
    }
    return try scanner.string(bytes).text(of: bytes)
  }

  private mutating func tagText(_ text: String?, _ path: String) -> String? {
    guard let text else { return nil }
    guard text.utf8.count <= Limits.tagTextBytesMaximum else {
      fail(path, "must be at most \(Limits.tagTextBytesMaximum) bytes, not \(text.utf8.count)")
      return nil
    }
    return text
  }

  /// A number that keeps its value: finite, and an integer only if it is exact.
  private mutating func double(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ path: String
  ) throws(JSONError) -> Double? {
    let number = try scanner.number(bytes)
    let maximum = DeviceLimits.exactIntegerMaximum
    var text: [UInt8] = []
    for index in number.range.range { text.append(bytes[index]) }
    let isInteger = text.allSatisfy { $0 == ASCII.minus || $0 &- ASCII.zero < 10 }
    if isInteger, number.integer.map({ $0.magnitude > maximum.magnitude }) ?? true {
      fail(path, "is an integer beyond 2^53, which a number does not hold exactly; write it as a string")
      return nil
    }
    guard let value = Double(String(decoding: text, as: UTF8.self)), value.isFinite else {
      fail(path, "must be a number that 64 bits hold, not \(JobError.describe(bytes, number.range))")
      return nil
    }
    return value == 0 ? 0 : value
  }
}
