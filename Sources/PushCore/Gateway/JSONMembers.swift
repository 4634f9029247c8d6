/// The top-level members of a JSON object. Only values that are strings are decoded.
struct JSONMembers {
  struct Member {
    var name: String
    var value: ByteRange
    /// The value, if it is a string; else nil.
    var text: String?
  }

  private(set) var all: [Member] = []
  /// Position after the opening brace.
  private(set) var start = 0

  /// Throws unless the bytes are one valid JSON object.
  init(_ bytes: Span<UInt8>) throws(JSONError) {
    var scanner = JSONScanner()
    var hasMember = try scanner.beginObject(bytes)
    start = hasMember ? JSONMembers.behindBrace(bytes) : 0
    while hasMember {
      let name = try scanner.key(bytes).text(of: bytes)
      var text: String?
      let first = scanner.peek(bytes)
      let start = scanner.position
      if first == ASCII.quote {
        text = try scanner.string(bytes).text(of: bytes)
      } else {
        try scanner.skipValue(bytes)
      }
      all.append(Member(name: name, value: ByteRange(start: start, count: scanner.position - start), text: text))
      hasMember = try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  subscript(name: String) -> Member? { all.first { $0.name == name } }

  /// A copy of the object with these members inserted before its own.
  func adding(_ members: [UInt8], to bytes: borrowing [UInt8]) -> [UInt8] {
    var copy: [UInt8] = []
    copy.reserveCapacity(bytes.count + members.count + 1)
    copy.append(ASCII.openBrace)
    copy.append(contentsOf: members)
    if all.isEmpty {
      copy.append(ASCII.closeBrace)
    } else {
      copy.append(ASCII.comma)
      copy.append(contentsOf: bytes[start...])
    }
    return copy
  }

  private static func behindBrace(_ bytes: Span<UInt8>) -> Int {
    var scanner = JSONScanner()
    _ = scanner.peek(bytes)
    return scanner.position + 1
  }
}
