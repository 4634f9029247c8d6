/// JSON that was checked as a whole, so that reading its parts cannot fail.
struct CheckedJSON {
  struct Member {
    var key: JSONString
    /// Where the value stands.
    var value: Int
  }

  let bytes: [UInt8]

  init(_ bytes: [UInt8]) throws(JSONError) {
    self.bytes = bytes
    var scanner = JSONScanner()
    try scanner.skipValue(bytes.span)
    try scanner.end(bytes.span)
  }

  /// The first byte of the outermost value.
  var start: Int {
    var scanner = JSONScanner()
    _ = scanner.peek(bytes.span)
    return scanner.position
  }

  /// The members of the object that stands at a place; nil: it is none.
  func members(at place: Int) -> [Member]? {
    guard bytes[place] == ASCII.openBrace else { return nil }
    return read(at: place) { scanner, bytes throws(JSONError) in
      var members: [Member] = []
      guard try scanner.beginObject(bytes) else { return members }
      repeat {
        let key = try scanner.key(bytes)
        _ = scanner.peek(bytes)
        members.append(Member(key: key, value: scanner.position))
        try scanner.skipValue(bytes)
      } while try scanner.nextMember(bytes)
      return members
    }
  }

  /// Where the elements of the array stand that stands at a place; nil: it is none.
  func elements(at place: Int) -> [Int]? {
    guard bytes[place] == ASCII.openBracket else { return nil }
    return read(at: place) { scanner, bytes throws(JSONError) in
      var elements: [Int] = []
      guard scanner.beginArray(bytes) else { return elements }
      repeat {
        _ = scanner.peek(bytes)
        elements.append(scanner.position)
        try scanner.skipValue(bytes)
      } while try scanner.nextElement(bytes)
      return elements
    }
  }

  /// The string that stands at a place; nil: it is none.
  func text(at place: Int) -> String? {
    guard bytes[place] == ASCII.quote else { return nil }
    return text(read(at: place) { scanner, bytes throws(JSONError) in try scanner.string(bytes) })
  }

  func text(_ string: JSONString) -> String {
    string.hasEscapes
      ? String(decoding: JSONEscape.unescaped(string.range, of: bytes.span), as: UTF8.self)
      : String(decoding: bytes[string.range.range], as: UTF8.self)
  }

  /// The number without a fraction that stands at a place; nil: it is none.
  func integer(at place: Int) -> Int64? {
    guard isNumber(at: place) else { return nil }
    return read(at: place) { scanner, bytes throws(JSONError) in try scanner.number(bytes).integer }
  }

  func isNumber(at place: Int) -> Bool { bytes[place] == ASCII.minus || bytes[place] &- ASCII.zero < 10 }

  func isNull(at place: Int) -> Bool { bytes[place] == UInt8(ascii: "n") }

  /// The value that stands at a place, as written.
  func raw(at place: Int) -> ArraySlice<UInt8> {
    let end = read(at: place) { scanner, bytes throws(JSONError) in
      try scanner.skipValue(bytes)
      return scanner.position
    }
    return bytes[place..<end]
  }

  /// The value in a few words, for errors.
  func description(at place: Int) -> String { JobError.describe(bytes.span, valueAt: place) }

  private func read<Value>(
    at place: Int, _ body: (inout JSONScanner, Span<UInt8>) throws(JSONError) -> Value
  ) -> Value {
    var scanner = JSONScanner(position: place)
    do throws(JSONError) {
      return try body(&scanner, bytes.span)
    } catch {
      preconditionFailure("the JSON was checked before")
    }
  }
}
