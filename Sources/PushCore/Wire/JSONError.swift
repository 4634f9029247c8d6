/// Why bytes are not JSON (RFC 8259), and where.
package struct JSONError: Error, Hashable, Sendable {
  package enum Kind: Hashable, Sendable {
    case unexpectedEnd
    case expectedObject, expectedValue, expectedKey, expectedColon, expectedCommaOrBrace, expectedCommaOrBracket
    case badLiteral, badNumber, badEscape, loneSurrogate, controlCharacter, badUTF8
    case tooDeep
    case trailingBytes
  }

  package var kind: Kind
  /// Offset of the first wrong byte.
  package var offset: Int

  package init(_ kind: Kind, at offset: Int) {
    self.kind = kind
    self.offset = offset
  }

  /// What is wrong, for people.
  package var text: String {
    switch kind {
    case .unexpectedEnd: "ends too early"
    case .expectedObject: "an object must begin here"
    case .expectedValue: "a value must begin here"
    case .expectedKey: "a key in double quotes must stand here"
    case .expectedColon: "a colon must follow the key"
    case .expectedCommaOrBrace: "a comma or the object's closing brace must stand here"
    case .expectedCommaOrBracket: "a comma or the array's closing bracket must stand here"
    case .badLiteral: "neither true, false nor null"
    case .badNumber: "not a JSON number"
    case .badEscape: "not an escape that JSON knows"
    case .loneSurrogate: "half of a surrogate pair"
    case .controlCharacter: "a control character inside a string must be escaped"
    case .badUTF8: "not UTF-8"
    case .tooDeep: "nested deeper than \(Limits.jsonDepthMaximum) levels"
    case .trailingBytes: "nothing may follow the job's object"
    }
  }
}
