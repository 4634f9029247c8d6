/// JSON that was validated as a whole, so that reading its parts cannot fail. A place is the position of a value's first byte.
struct CheckedJSON {
  struct Member {
    var key: JSONString
    /// The place of the value.
    var value: Int
  }

  let bytes: [UInt8]

  init(_ bytes: [UInt8]) throws(JSONError) {
    self.bytes = bytes
    var scanner = JSONScanner()
    try scanner.skipValue(bytes.span)
    try scanner.end(bytes.span)
  }

  /// The place of the outermost value.
  var start: Int {
    var scanner = JSONScanner()
    _ = scanner.peek(bytes.span)
    return scanner.position
  }

  /// The members of the object at this place; nil: not an object.
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

  /// The places of the elements of the array at this place; nil: not an array.
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

  /// The string at this place; nil: not a string.
  func text(at place: Int) -> String? {
    guard bytes[place] == ASCII.quote else { return nil }
    return text(read(at: place) { scanner, bytes throws(JSONError) in try scanner.string(bytes) })
  }

  func text(_ string: JSONString) -> String {
    string.hasEscapes
      ? String(decoding: JSONEscape.unescaped(string.range, of: bytes.span), as: UTF8.self)
      : String(decoding: bytes[string.range.range], as: UTF8.self)
  }

  /// The integer at this place; nil: not an integer.
  func integer(at place: Int) -> Int64? {
    guard isNumber(at: place) else { return nil }
    return read(at: place) { scanner, bytes throws(JSONError) in try scanner.number(bytes).whole(in: bytes) }
  }

  func isNumber(at place: Int) -> Bool { bytes[place] == ASCII.minus || bytes[place] &- ASCII.zero < 10 }

  func isNull(at place: Int) -> Bool { bytes[place] == UInt8(ascii: "n") }

  /// The bytes of the value at this place.
  func raw(at place: Int) -> ArraySlice<UInt8> {
    let end = read(at: place) { scanner, bytes throws(JSONError) in
      try scanner.skipValue(bytes)
      return scanner.position
    }
    return bytes[place..<end]
  }

  /// A short description of the value at this place, for errors.
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
