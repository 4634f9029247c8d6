/// The text form of filters, for clients that use it:
/// `(T("plan", EQ, "gold") + T("level", GTE, 7)) * T("vip", EQ, true)`.
///
/// `T("tag", OPERATOR, value)` with EQ, NOTEQ, GTE, LTE, BETWEEN, IN and NOTIN. Values are strings in double quotes
/// (escapes as in JSON), numbers, `true`, `false`, and lists in brackets for IN, NOTIN and BETWEEN. `+` is union, `*`
/// is intersection and binds tighter, `\` is difference and needs parentheses next to another operator. NOTEQ and NOTIN
/// include devices without the tag, as `not` does.
enum SegmentTextParser {
  static func parse(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> SegmentFilter {
    var walk = SegmentTextWalk()
    let filter = try walk.expression(bytes, parentheses: 0)
    try walk.end(bytes)
    guard filter.depth <= SegmentLimits.depthMaximum else {
      throw SegmentFilterError(.byte(0), "is nested deeper than \(SegmentLimits.depthMaximum) levels")
    }
    return filter
  }
}

private struct SegmentTextWalk {
  private enum Operator: String, CaseIterable {
    case equal = "EQ"
    case notEqual = "NOTEQ"
    case atLeast = "GTE"
    case atMost = "LTE"
    case between = "BETWEEN"
    case `in` = "IN"
    case notIn = "NOTIN"
  }

  private static let unite = ASCII.plus
  private static let intersect = UInt8(ascii: "*")
  private static let subtract = ASCII.backslash

  private var scanner = JSONScanner()
  private var conditionCount = 0

  /// Clients put parentheses around each operator, so there may be as many pairs as conditions.
  private static let parenthesesMaximum = SegmentLimits.conditionsMaximum
  /// The longest word is BETWEEN.
  private static let wordMaximum = 16

  // MARK: - Sets

  /// Operands and operators up to the end or a closing parenthesis. Recursive, once for each open parenthesis.
  mutating func expression(_ bytes: Span<UInt8>, parentheses: Int) throws(SegmentFilterError) -> SegmentFilter {
    // The operands of `+`, each a list of the operands of `*`.
    var sums = [[try operand(bytes, parentheses: parentheses)]]
    var subtracted: [SegmentFilter] = []
    var first: UInt8?
    while true {
      let sign = scanner.peek(bytes)
      guard sign == Self.unite || sign == Self.intersect || sign == Self.subtract else { break }
      if (first ?? sign) != sign, first == Self.subtract || sign == Self.subtract {
        throw fault("needs parentheses: \\ stands beside + or * here")
      }
      first = sign
      scanner.position += 1
      let next = try operand(bytes, parentheses: parentheses)
      switch sign {
      case Self.unite: sums.append([next])
      case Self.intersect: sums[sums.count - 1].append(next)
      default: subtracted.append(.not(next))
      }
    }
    if !subtracted.isEmpty { return Self.all(sums[0] + subtracted) }
    return Self.any(sums.map(Self.all))
  }

  mutating func end(_ bytes: Span<UInt8>) throws(SegmentFilterError) {
    _ = scanner.peek(bytes)
    guard scanner.position < bytes.count else { return }
    throw fault("must go on with +, * or \\, or end\(SegmentFilterError.seen(bytes, at: scanner.position))")
  }

  private mutating func operand(_ bytes: Span<UInt8>, parentheses: Int) throws(SegmentFilterError) -> SegmentFilter {
    guard scanner.peek(bytes) == UInt8(ascii: "(") else { return try condition(bytes) }
    guard parentheses < Self.parenthesesMaximum else {
      throw fault("is more than \(Self.parenthesesMaximum) parentheses deep")
    }
    scanner.position += 1
    let filter = try expression(bytes, parentheses: parentheses + 1)
    try take(UInt8(ascii: ")"), bytes)
    return filter
  }

  /// One filter, or `all` of them, with nested `all` filters flattened.
  private static func all(_ filters: [SegmentFilter]) -> SegmentFilter {
    filters.count == 1
      ? filters[0] : .all(filters.flatMap { if case .all(let parts) = $0 { parts } else { [$0] } })
  }

  private static func any(_ filters: [SegmentFilter]) -> SegmentFilter {
    filters.count == 1
      ? filters[0] : .any(filters.flatMap { if case .any(let parts) = $0 { parts } else { [$0] } })
  }

  // MARK: - Conditions

  private mutating func condition(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> SegmentFilter {
    _ = scanner.peek(bytes)
    let start = scanner.position
    let name = try word(bytes, or: "must be T(\"tag\", OPERATOR, value) or a parenthesis")
    switch name {
    case "T": break
    case "A", "AT", "G":
      throw fault(
        "must not name an app: leave \(name)(…) away, or make it T(…); a segment belongs to one app", at: start)
    default: throw fault("must be T(\"tag\", OPERATOR, value), not \(SegmentRules.shown(name))", at: start)
    }
    try take(UInt8(ascii: "("), bytes)
    let tag = try text(bytes, SegmentRules.tag)
    try take(ASCII.comma, bytes)
    let filter = try comparison(tag, try operation(bytes), bytes)
    try take(UInt8(ascii: ")"), bytes)
    return filter
  }

  private mutating func operation(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> Operator {
    let names = Operator.allCases.map(\.rawValue)
    _ = scanner.peek(bytes)
    let start = scanner.position
    let word = try word(bytes, or: "must be an operator: one of \(names.joined(separator: ", "))")
    if let known = Operator(rawValue: word) {
      try take(ASCII.comma, bytes)
      return known
    }
    let hint = EditDistance.nearest(to: word.uppercased(), among: names).map { "; did you mean \($0)?" }
    throw fault(
      "\(SegmentRules.shown(word)) is no operator\(hint ?? "; they are \(names.joined(separator: ", "))")", at: start)
  }

  private mutating func comparison(
    _ tag: String, _ operation: Operator, _ bytes: Span<UInt8>
  ) throws(SegmentFilterError) -> SegmentFilter {
    switch operation {
    case .equal: return .leaf(try counted(.tagIs(tag, try value(bytes))))
    case .notEqual: return .not(.leaf(try counted(.tagIs(tag, try value(bytes)))))
    case .atLeast: return .leaf(try counted(.tagAtLeast(tag, try number(bytes, operation))))
    case .atMost: return .leaf(try counted(.tagAtMost(tag, try number(bytes, operation))))
    case .in: return .leaf(try counted(.tagIn(tag, try values(bytes, operation))))
    case .notIn: return .not(.leaf(try counted(.tagIn(tag, try values(bytes, operation)))))
    case .between:
      _ = scanner.peek(bytes)
      let start = scanner.position
      var bounds: [Double] = []
      try list(bytes, operation) { walk, bytes throws(SegmentFilterError) in
        bounds.append(try walk.number(bytes, operation))
      }
      guard bounds.count == 2, bounds[0] <= bounds[1] else {
        throw fault("must be the smallest and the largest number in brackets, such as [17, 20]", at: start)
      }
      let least = try counted(.tagAtLeast(tag, bounds[0]))
      return .all([.leaf(least), .leaf(try counted(.tagAtMost(tag, bounds[1])))])
    }
  }

  private mutating func counted(_ condition: SegmentCondition) throws(SegmentFilterError) -> SegmentCondition {
    conditionCount += 1
    guard conditionCount <= SegmentLimits.conditionsMaximum else {
      throw fault("is one condition more than a filter's \(SegmentLimits.conditionsMaximum)")
    }
    return condition
  }

  // MARK: - Values

  private mutating func values(
    _ bytes: Span<UInt8>, _ operation: Operator
  ) throws(SegmentFilterError) -> [SegmentValue] {
    var values: [SegmentValue] = []
    try list(bytes, operation) { walk, bytes throws(SegmentFilterError) in
      let value = try walk.value(bytes)
      guard !values.contains(value) else { return }
      guard values.count < SegmentLimits.valuesMaximum else {
        throw walk.fault("is one value more than the \(SegmentLimits.valuesMaximum) of a list")
      }
      values.append(value)
    }
    return values
  }

  private mutating func list(
    _ bytes: Span<UInt8>, _ operation: Operator,
    _ element: (inout SegmentTextWalk, Span<UInt8>) throws(SegmentFilterError) -> Void
  ) throws(SegmentFilterError) {
    guard scanner.peek(bytes) == ASCII.openBracket else {
      throw fault(
        "must be a list in brackets for \(operation.rawValue)\(SegmentFilterError.seen(bytes, at: scanner.position))")
    }
    scanner.position += 1
    while true {
      try element(&self, bytes)
      guard scanner.peek(bytes) == ASCII.comma else { break }
      scanner.position += 1
    }
    try take(ASCII.closeBracket, bytes)
  }

  private mutating func value(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> SegmentValue {
    switch scanner.peek(bytes) {
    case ASCII.quote: return .text(try text(bytes, SegmentRules.value))
    case let byte where byte == ASCII.minus || byte &- ASCII.zero < 10: return .number(try scannedNumber(bytes))
    case let byte where byte == UInt8(ascii: "t") || byte == UInt8(ascii: "f"):
      try json(bytes) { scanner, bytes throws(JSONError) in try scanner.literal(bytes) }
      return .flag(byte == UInt8(ascii: "t"))
    default:
      throw fault(
        "must be a string in double quotes, a number, true or false"
          + SegmentFilterError.seen(bytes, at: scanner.position))
    }
  }

  private mutating func number(_ bytes: Span<UInt8>, _ operation: Operator) throws(SegmentFilterError) -> Double {
    let byte = scanner.peek(bytes)
    guard byte == ASCII.minus || byte &- ASCII.zero < 10 else {
      throw fault(
        "must be a number: \(operation.rawValue) compares numbers, not texts or dates"
          + SegmentFilterError.seen(bytes, at: scanner.position))
    }
    return try scannedNumber(bytes)
  }

  private mutating func scannedNumber(_ bytes: Span<UInt8>) throws(SegmentFilterError) -> Double {
    let start = scanner.position
    let number = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.number(bytes) }
    guard let value = SegmentRules.number(bytes, number.range) else {
      throw fault("must be a number that 64 bits hold", at: start)
    }
    return value
  }

  private mutating func text(
    _ bytes: Span<UInt8>, _ rule: (String) -> String?
  ) throws(SegmentFilterError) -> String {
    guard scanner.peek(bytes) == ASCII.quote else {
      throw fault(
        "must be a string in double quotes\(SegmentFilterError.seen(bytes, at: scanner.position))")
    }
    let start = scanner.position
    let string = try json(bytes) { scanner, bytes throws(JSONError) in try scanner.string(bytes) }
    let text = SegmentRules.text(string, bytes)
    if let broken = rule(text) { throw fault(broken, at: start) }
    return text
  }

  // MARK: - Bytes

  /// One or more letters.
  private mutating func word(_ bytes: Span<UInt8>, or rule: String) throws(SegmentFilterError) -> String {
    var text = ""
    _ = scanner.peek(bytes)
    while scanner.position < bytes.count, text.utf8.count < Self.wordMaximum,
      UInt8(ascii: "a")...UInt8(ascii: "z") ~= bytes[scanner.position] | 0x20
    {
      text.unicodeScalars.append(Unicode.Scalar(bytes[scanner.position]))
      scanner.position += 1
    }
    guard !text.isEmpty else { throw fault("\(rule)\(SegmentFilterError.seen(bytes, at: scanner.position))") }
    return text
  }

  private mutating func take(_ byte: UInt8, _ bytes: Span<UInt8>) throws(SegmentFilterError) {
    guard scanner.peek(bytes) == byte else {
      throw fault(
        "must go on with \(Unicode.Scalar(byte))\(SegmentFilterError.seen(bytes, at: scanner.position))")
    }
    scanner.position += 1
  }

  private mutating func json<Value>(
    _ bytes: Span<UInt8>, _ body: (inout JSONScanner, Span<UInt8>) throws(JSONError) -> Value
  ) throws(SegmentFilterError) -> Value {
    do throws(JSONError) {
      return try body(&scanner, bytes)
    } catch {
      throw fault("is broken: \(error.text)\(SegmentFilterError.seen(bytes, at: error.offset))", at: error.offset)
    }
  }

  private func fault(_ rule: String, at offset: Int? = nil) -> SegmentFilterError {
    SegmentFilterError(.byte(offset ?? scanner.position), rule)
  }
}
