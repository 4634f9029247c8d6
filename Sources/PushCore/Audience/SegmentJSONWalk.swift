/// Reads a filter's JSON in one pass, with the path to the current value.
struct SegmentJSONWalk {
  private enum Key: String, CaseIterable {
    case all, any, not, tag
    case `is`, `in`
    case atLeast = "at_least"
    case atMost = "at_most"
    case exists, locale
    case osAtLeast = "os_at_least"
    case seenWithin = "seen_within"
    case has, segment

    /// Used together with `tag`.
    var isOperator: Bool {
      switch self {
      case .is, .in, .atLeast, .atMost, .exists: true
      case .all, .any, .not, .tag, .locale, .osAtLeast, .seenWithin, .has, .segment: false
      }
    }

    static func names(_ isTaken: (Key) -> Bool) -> String {
      allCases.filter(isTaken).map(\.rawValue).joined(separator: ", ")
    }
  }

  /// The condition on `tag`.
  private enum Operand {
    case `is`(SegmentValue)
    case `in`([SegmentValue])
    case atLeast(Double)
    case atMost(Double)
    case exists
  }

  /// The members of one object that were read.
  private struct Members {
    var keys: [Key] = []
    var tag: String?
    var operand: Operand?
    var whole: SegmentFilter?
  }

  private var scanner = JSONScanner()
  private var path: [String] = []
  private var conditionCount = 0

  /// One filter. Recursive, at most `SegmentLimits.depthMaximum` levels.
  mutating func filter(_ bytes: Span<UInt8>, depth: Int) throws(SegmentFilterError) -> SegmentFilter {
    guard depth <= SegmentLimits.depthMaximum else {
      throw fault("is nested deeper than \(SegmentLimits.depthMaximum) levels")
    }
    guard try peek(bytes) == ASCII.openBrace else { throw fault("must be an object, not \(described(bytes))") }
    var members = Members()
    var hasMember = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.beginObject(bytes) }
    while hasMember {
      let key = try key(bytes)
      guard !members.keys.contains(key) else { throw fault("must be there once, not twice", at: key.rawValue) }
      members.keys.append(key)
      path.append(key.rawValue)
      try read(key, bytes, depth: depth, into: &members)
      path.removeLast()
      hasMember = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.nextMember(bytes) }
    }
    return try assembled(members)
  }

  /// Fails if anything follows.
  mutating func end(_ bytes: Span<UInt8>) throws(SegmentFilterError) {
    try json(bytes) { scanner, bytes throws(JSONError) in try scanner.end(bytes) }
  }

  // MARK: - Members

  private mutating func read(
    _ key: Key, _ bytes: Span<UInt8>, depth: Int, into members: inout Members
  ) throws(SegmentFilterError) {
    switch key {
    case .all: members.whole = .all(try filters(bytes, depth: depth))
    case .any: members.whole = .any(try filters(bytes, depth: depth))
    case .not: members.whole = .not(try filter(bytes, depth: depth + 1))
    case .tag:
      let text = try text(bytes)
      if let rule = SegmentRules.tag(text) { throw fault(rule) }
      members.tag = text
    case .is: members.operand = .is(try value(bytes))
    case .in: members.operand = .in(try values(bytes))
    case .atLeast: members.operand = .atLeast(try number(bytes))
    case .atMost: members.operand = .atMost(try number(bytes))
    case .exists:
      guard try peek(bytes) == UInt8(ascii: "t") else {
        throw fault("must be true, not \(described(bytes)); {\"not\": {\"tag\": …, \"exists\": true}} is the opposite")
      }
      try json(bytes) { scanner, bytes throws(JSONError) in try scanner.literal(bytes) }
      members.operand = .exists
    case .locale, .osAtLeast, .seenWithin, .has, .segment: members.whole = .leaf(try condition(key, try text(bytes)))
    }
  }

  private func condition(_ key: Key, _ text: String) throws(SegmentFilterError) -> SegmentCondition {
    let made: Result<SegmentCondition, SegmentRules.Broken> =
      switch key {
      case .locale: SegmentRules.locale(text)
      case .osAtLeast: SegmentRules.osAtLeast(text)
      case .seenWithin: SegmentRules.seenWithin(text)
      case .has: SegmentRules.has(text)
      default: SegmentRules.segment(text)
      }
    switch made {
    case .success(let condition): return condition
    case .failure(let broken): throw fault(broken.rule)
    }
  }

  private mutating func assembled(_ members: Members) throws(SegmentFilterError) -> SegmentFilter {
    let conditions = members.keys.filter { !$0.isOperator }
    let operators = members.keys.filter(\.isOperator)
    guard let first = conditions.first else {
      if let operand = operators.first { throw fault("needs tag beside it", at: operand.rawValue) }
      throw fault("must have a condition: one of \(Key.names { !$0.isOperator })")
    }
    guard conditions.count == 1 else {
      throw fault(
        "must be one condition, not \(conditions.map(\.rawValue).joined(separator: " and ")); put them into all or any")
    }
    guard let whole = members.whole else {
      guard let tag = members.tag, let operand = members.operand else {
        throw fault("needs one of \(Key.names(\.isOperator)) beside it", at: first.rawValue)
      }
      guard operators.count == 1 else {
        throw fault(
          "takes one of \(operators.map(\.rawValue).joined(separator: " and ")); put two conditions into all or any",
          at: first.rawValue)
      }
      return .leaf(try counted(tag, operand))
    }
    if let operand = operators.first { throw fault("does not go with \(first.rawValue)", at: operand.rawValue) }
    if case .leaf = whole { try count() }
    return whole
  }

  private mutating func counted(_ tag: String, _ operand: Operand) throws(SegmentFilterError) -> SegmentCondition {
    try count()
    return switch operand {
    case .is(let value): .tagIs(tag, value)
    case .in(let values): .tagIn(tag, values)
    case .atLeast(let number): .tagAtLeast(tag, number)
    case .atMost(let number): .tagAtMost(tag, number)
    case .exists: .tagExists(tag)
    }
  }

  private mutating func count() throws(SegmentFilterError) {
    conditionCount += 1
    guard conditionCount <= SegmentLimits.conditionsMaximum else {
      throw fault("is one condition more than a filter's \(SegmentLimits.conditionsMaximum)")
    }
  }

  // MARK: - Values

  private mutating func filters(_ bytes: Span<UInt8>, depth: Int) throws(SegmentFilterError) -> [SegmentFilter] {
    var filters: [SegmentFilter] = []
    try forEachElement(bytes, of: "filters") { (walk, bytes) throws(SegmentFilterError) in
      filters.append(try walk.filter(bytes, depth: depth + 1))
    }
    return filters
  }

  private mutating func values(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> [SegmentValue] {
    var values: [SegmentValue] = []
    try forEachElement(bytes, of: "values") { (walk, bytes) throws(SegmentFilterError) in
      let value = try walk.value(bytes)
      guard !values.contains(value) else { return }
      guard values.count < SegmentLimits.valuesMaximum else {
        throw walk.fault("is one value more than the \(SegmentLimits.valuesMaximum) of an in")
      }
      values.append(value)
    }
    return values
  }

  private mutating func forEachElement(
    _ bytes: Span<UInt8>, of what: String,
    _ body: (inout SegmentJSONWalk, Span<UInt8>) throws(SegmentFilterError) -> Void
  ) throws(SegmentFilterError) {
    guard try peek(bytes) == ASCII.openBracket else {
      throw fault("must be a list of \(what), not \(described(bytes))")
    }
    var hasElement = scanner.beginArray(bytes)
    guard hasElement else { throw fault("must have at least one of its \(what)") }
    var index = 0
    while hasElement {
      path.append(String(index))
      try body(&self, bytes)
      path.removeLast()
      index += 1
      hasElement = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.nextElement(bytes) }
    }
  }

  private mutating func value(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> SegmentValue {
    switch try peek(bytes) {
    case ASCII.quote:
      let text = try text(bytes)
      if let rule = SegmentRules.value(text) { throw fault(rule) }
      return .text(text)
    case let byte where byte == ASCII.minus || byte &- ASCII.zero < 10:
      return .number(try number(bytes))
    case let byte where byte == UInt8(ascii: "t") || byte == UInt8(ascii: "f"):
      try json(bytes) { scanner, bytes throws(JSONError) in try scanner.literal(bytes) }
      return .flag(byte == UInt8(ascii: "t"))
    default:
      throw fault("must be a string, a number, true or false, not \(described(bytes))")
    }
  }

  private mutating func number(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> Double {
    let first = try peek(bytes)
    guard first == ASCII.minus || first &- ASCII.zero < 10 else {
      throw fault("must be a number, not \(described(bytes))")
    }
    let number = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.number(bytes) }
    guard let value = SegmentRules.number(bytes, number.range) else {
      throw fault("must be a number that 64 bits hold, not \(JobError.describe(bytes, number.range))")
    }
    return value
  }

  private mutating func text(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> String {
    guard try peek(bytes) == ASCII.quote else { throw fault("must be a string, not \(described(bytes))") }
    let string = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.string(bytes) }
    return SegmentRules.text(string, bytes)
  }

  // MARK: - Places

  private mutating func key(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> Key {
    let string = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.key(bytes) }
    let name = SegmentRules.text(string, bytes)
    if let key = Key(rawValue: name) { return key }
    let hint = EditDistance.nearest(to: name, among: Key.allCases.map(\.rawValue)).map { "; did you mean \($0)?" }
    let shown = string.range.isEmpty ? "" : JobError.describe(bytes, key: string)
    throw fault("is not a key of a filter\(hint ?? "; the keys are \(Key.names { _ in true })")", at: shown)
  }

  /// The next byte; the end of input is broken JSON.
  private mutating func peek(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> UInt8 {
    let byte = scanner.peek(bytes)
    guard scanner.position < bytes.count else {
      throw SegmentFilterError(JSONError(.unexpectedEnd, at: bytes.count), in: bytes)
    }
    return byte
  }

  private mutating func json<Value>(
    _ bytes: Span<UInt8>, _ body: (inout JSONScanner, Span<UInt8>) throws(JSONError) -> Value
  ) throws(SegmentFilterError) -> Value {
    do throws(JSONError) { return try body(&scanner, bytes) } catch { throw SegmentFilterError(error, in: bytes) }
  }

  private func described(_ bytes: Span<UInt8>) -> String { JobError.describe(bytes, valueAt: scanner.position) }

  /// A fault of the current value, or of its member.
  private func fault(_ rule: String, at member: String? = nil) -> SegmentFilterError {
    let places = member.map { path + [$0] } ?? path
    return SegmentFilterError(.pointer(places.map { "/" + SegmentJSONWalk.escaped($0) }.joined()), rule)
  }

  private static func escaped(_ name: String) -> String {
    var text = ""
    for character in name.unicodeScalars {
      switch character {
      case "~": text += "~0"
      case "/": text += "~1"
      default: text.unicodeScalars.append(character)
      }
    }
    return text
  }
}
