/// Writes one JSON object, member by member.
struct MessageWriter {
  private var bytes = [ASCII.openBrace]

  mutating func add(_ name: String, _ text: String) {
    key(name)
    bytes.append(jsonString: text)
  }

  mutating func add(_ name: String, _ number: Int64) {
    key(name)
    bytes.append(decimal: number)
  }

  /// Adds a value that is JSON already.
  mutating func add(_ name: String, json: some Sequence<UInt8>) {
    key(name)
    bytes.append(contentsOf: json)
  }

  /// Adds an object.
  mutating func add(_ name: String, object write: (inout MessageWriter) -> Void) {
    key(name)
    bytes.append(ASCII.openBrace)
    write(&self)
    bytes.append(ASCII.closeBrace)
  }

  /// Closes the object and returns it.
  consuming func finish() -> [UInt8] {
    bytes.append(ASCII.closeBrace)
    return bytes
  }

  private mutating func key(_ name: String) {
    if bytes.last != ASCII.openBrace { bytes.append(ASCII.comma) }
    bytes.append(jsonString: name)
    bytes.append(ASCII.colon)
  }
}

extension [UInt8] {
  /// Appends a JSON array of strings.
  mutating func append(jsonStrings texts: [String]) {
    append(ASCII.openBracket)
    for (index, text) in texts.enumerated() {
      if index > 0 { append(ASCII.comma) }
      append(jsonString: text)
    }
    append(ASCII.closeBracket)
  }
}
