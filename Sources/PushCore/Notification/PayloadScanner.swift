/// Scans a payload once: checks its JSON, and the shape of every key that Apple defines.
struct PayloadScanner: Sendable {
  private let tables: [KeyTable]
  /// The raw value of each level's first key.
  private let firstKeys: [UInt8]

  init() {
    tables = PayloadKey.Level.allCases.map { level in KeyTable(level.keys.map { $0.row.name }) }
    firstKeys = PayloadKey.Level.allCases.map { level in level.keys[0].rawValue }
  }

  /// Scans the payload's object, whose brace is at the scanner's position.
  func scan(_ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ facts: inout PayloadFacts) throws(JSONError) {
    _ = try object(bytes, &scanner, .root, parent: nil, &facts)
  }

  /// Scans an object of a known level. Returns whether it is empty.
  private func object(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ level: PayloadKey.Level, parent: PayloadKey?,
    _ facts: inout PayloadFacts
  ) throws(JSONError) -> Bool {
    guard try scanner.beginObject(bytes) else { return true }
    var seen: PayloadKeySet = []
    repeat {
      let name = try scanner.key(bytes)
      let first = scanner.peek(bytes)
      if level == .root { facts.rootKeyCount &+= 1 }
      guard let key = key(bytes, name, level) else {
        // Most values of unknown keys are strings.
        if first == ASCII.quote { _ = try scanner.string(bytes) } else { try scanner.skipValue(bytes) }
        continue
      }
      if seen.contains(key), facts.repeated == nil {
        facts.repeated = PayloadFacts.Fault(key: key, parent: parent, offset: scanner.position)
      }
      seen.insert(key)
      // Some encoders write null for a missing key.
      if first == UInt8(ascii: "n") {
        try scanner.literal(bytes)
        continue
      }
      facts.keys.insert(key)
      let start = scanner.position
      guard try value(bytes, &scanner, key, first, &facts) else {
        facts.record(PayloadFacts.Fault(key: key, parent: parent, offset: start))
        if scanner.position == start { try scanner.skipValue(bytes) }
        continue
      }
    } while try scanner.nextMember(bytes)
    return false
  }

  @inline(__always)
  private func key(_ bytes: Span<UInt8>, _ name: JSONString, _ level: PayloadKey.Level) -> PayloadKey? {
    let place = Int(level.rawValue)
    guard let index = tables[place].index(bytes, name) else { return nil }
    return PayloadKey(rawValue: firstKeys[place] &+ UInt8(truncatingIfNeeded: index))
  }

  /// Scans the value of a known key if its shape is right. Returns false if not: then the value may be
  /// skipped or not.
  private func value(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: PayloadKey, _ first: UInt8, _ facts: inout PayloadFacts
  ) throws(JSONError) -> Bool {
    switch key.shape {
    case .anything:
      if first == ASCII.quote {
        if try !scanner.string(bytes).range.isEmpty { facts.filledStrings.insert(key) }
        return true
      }
      try scanner.skipValue(bytes)
      return true
    case .string:
      guard first == ASCII.quote else { return false }
      _ = try scanner.string(bytes)
      return true
    case .filled, .base64, .digits:
      guard first == ASCII.quote else { return false }
      let string = try scanner.string(bytes)
      // Many encoders write the slash of base64 with a backslash.
      if string.hasEscapes {
        let text = JSONEscape.unescaped(string.range, of: bytes)
        return isForm(text.span, key.shape)
      }
      return isForm(bytes.extracting(string.range.range), key.shape)
    case .strings:
      guard first == ASCII.openBracket else { return false }
      guard scanner.beginArray(bytes) else { return true }
      var isRight = true
      repeat {
        if scanner.peek(bytes) == ASCII.quote {
          _ = try scanner.string(bytes)
        } else {
          isRight = false
          try scanner.skipValue(bytes)
        }
      } while try scanner.nextElement(bytes)
      return isRight
    case .object:
      guard first == ASCII.openBrace else { return false }
      try scanner.skipValue(bytes)
      return true
    case .aps:
      guard first == ASCII.openBrace else { return false }
      _ = try object(bytes, &scanner, .aps, parent: key, &facts)
      return true
    case .alert:
      if first == ASCII.quote {
        facts.alert = .string
        _ = try scanner.string(bytes)
        return true
      }
      guard first == ASCII.openBrace else { return false }
      facts.alert = try object(bytes, &scanner, .alert, parent: key, &facts) ? .emptyObject : .object
      return true
    case .text, .sound:
      if first == ASCII.quote {
        _ = try scanner.string(bytes)
        return true
      }
      guard first == ASCII.openBrace else { return false }
      let isText = key.shape == .text
      if isText { facts.textObjects.insert(key) }
      _ = try object(bytes, &scanner, isText ? .text : .sound, parent: key, &facts)
      return true
    case .count, .seconds, .one:
      guard let integer = try number(bytes, &scanner, first)?.integer else { return false }
      switch key.shape {
      case .one: return integer == 1
      case .seconds:
        return integer >= 0 && integer <= Limits.unixSecondsMaximum
      default: return integer >= 0
      }
    case .number:
      guard let number = try number(bytes, &scanner, first) else { return false }
      if key == .relevanceScore && !isUnit(bytes, number) { facts.relevanceScoreOutside = Int(number.range.start) }
      return true
    case .unit:
      guard let number = try number(bytes, &scanner, first) else { return false }
      return isUnit(bytes, number)
    case .date:
      guard let number = try number(bytes, &scanner, first) else { return false }
      // For a number with a fraction, only the length before the point counts.
      if let integer = number.integer { return integer >= 0 && integer <= Limits.unixSecondsMaximum }
      return isDate(bytes.extracting(number.range.range))
    case .flag:
      return try flag(bytes, &scanner, key, first, &facts)
    case .boolean:
      guard first == UInt8(ascii: "t") || first == UInt8(ascii: "f") else { return false }
      return try flag(bytes, &scanner, key, first, &facts)
    case .interruptionLevel:
      guard first == ASCII.quote else { return false }
      let word = bytes.extracting(try scanner.string(bytes).range.range)
      return word.equals("active") || word.equals("time-sensitive") || word.equals("passive") || word.equals("critical")
    case .event:
      guard first == ASCII.quote else { return false }
      let word = bytes.extracting(try scanner.string(bytes).range.range)
      facts.event =
        word.equals("update") ? .update : word.equals("start") ? .start : word.equals("end") ? .end : nil
      return facts.event != nil
    }
  }

  /// Whether a string's text, decoded, has the form of `filled`, `base64` or `digits`.
  private func isForm(_ text: Span<UInt8>, _ shape: PayloadKey.Shape) -> Bool {
    switch shape {
    case .base64: return HeaderText.isPaddedBase64(text)
    case .digits:
      for index in 0..<text.count where text[index] &- ASCII.zero >= 10 { return false }
      return !text.isEmpty
    default: return !text.isEmpty
    }
  }

  private func number(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ first: UInt8
  ) throws(JSONError) -> JSONNumber? {
    guard first == ASCII.minus || first &- ASCII.zero < 10 else { return nil }
    return try scanner.number(bytes)
  }

  private func flag(
    _ bytes: Span<UInt8>, _ scanner: inout JSONScanner, _ key: PayloadKey, _ first: UInt8, _ facts: inout PayloadFacts
  ) throws(JSONError) -> Bool {
    var isOne = false
    if first == UInt8(ascii: "t") || first == UInt8(ascii: "f") {
      try scanner.literal(bytes)
    } else {
      guard let integer = try number(bytes, &scanner, first)?.integer, integer == 0 || integer == 1 else {
        return false
      }
      isOne = integer == 1
    }
    if key == .contentAvailable { facts.isContentAvailableOne = isOne }
    if key == .contentChanged { facts.isContentChangedTrue = first == UInt8(ascii: "t") }
    return true
  }

  /// Whether a number is from 0 to 1, by its digits: without an exponent it is 0 before its point, or
  /// 1 with only zeros after it.
  private func isUnit(_ bytes: Span<UInt8>, _ number: JSONNumber) -> Bool {
    let text = bytes.extracting(number.range.range)
    var isZero = true
    for index in 0..<text.count {
      let byte = text[index]
      if byte | 0x20 == UInt8(ascii: "e") { return isUnit(withExponent: text) }
      if byte &- ASCII.zero < 10 && byte != ASCII.zero { isZero = false }
    }
    if isZero { return true }
    if text[0] == ASCII.zero { return true }
    guard text[0] == UInt8(ascii: "1") else { return false }
    for index in 1..<text.count where index == 1 ? text[index] != ASCII.dot : text[index] != ASCII.zero { return false }
    return true
  }

  /// Whether a number that is no integer is a time: not negative, and no more digits than seconds have.
  private func isDate(_ text: Span<UInt8>) -> Bool {
    guard text[0] != ASCII.minus else { return false }
    var digits = 0
    while digits < text.count, text[digits] &- ASCII.zero < 10 { digits += 1 }
    return digits <= 11
  }

  /// A score such as 5e-1 is unusual, and valid.
  private func isUnit(withExponent text: Span<UInt8>) -> Bool {
    var digits: [UInt8] = []
    for index in 0..<text.count { digits.append(text[index]) }
    guard let value = Double(String(decoding: digits, as: UTF8.self)) else { return false }
    return value >= 0 && value <= 1
  }
}

extension PayloadFacts {
  /// Keeps the first fault of each kind.
  fileprivate mutating func record(_ found: Fault) {
    if found.key.isOfLiveActivities || found.parent.map(\.isOfLiveActivities) == true {
      if liveActivityFault == nil { liveActivityFault = found }
    } else if found.key.isOfAccessories {
      if accessoryFault == nil { accessoryFault = found }
    } else if fault == nil {
      fault = found
    }
  }
}
