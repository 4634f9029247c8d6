/// The top-level members of a JSON object that have one of a few names. Reading them costs the same for each byte, whatever else is there.
struct JSONMembers {
  struct Member {
    var value: ByteRange
    /// The value, if it is a string; else nil.
    var text: String?
  }

  private let names: [String]
  /// By index in `names`: the first member with this name.
  private var found: [Member?]
  /// Of all members, with whatever name.
  private(set) var count = 0
  /// The name of the first member with another name, as written; nil: there is none.
  private(set) var other: JSONString?
  /// Position after the opening brace.
  private var start = 0

  /// Throws unless the bytes are one valid JSON object.
  init(_ bytes: Span<UInt8>, _ keys: KeyTable) throws(JSONError) {
    names = keys.names
    found = Array(repeating: nil, count: keys.names.count)
    var scanner = JSONScanner()
    _ = scanner.peek(bytes)
    start = scanner.position + 1
    var hasMember = try scanner.beginObject(bytes)
    while hasMember {
      let name = try scanner.key(bytes)
      count += 1
      let index = keys.index(bytes, name)
      if index == nil, other == nil { other = name }
      let isText = scanner.peek(bytes) == ASCII.quote
      let start = scanner.position
      if let index, found[index] == nil {
        var text: String?
        if isText { text = try scanner.string(bytes).text(of: bytes) } else { try scanner.skipValue(bytes) }
        found[index] = Member(value: ByteRange(start: start, count: scanner.position - start), text: text)
      } else {
        try scanner.skipValue(bytes)
      }
      hasMember = try scanner.nextMember(bytes)
    }
    try scanner.end(bytes)
  }

  /// - Parameter name: one of the table's.
  subscript(name: String) -> Member? { names.firstIndex(of: name).flatMap { found[$0] } }

  /// The first of the table's names that the object has; nil: none.
  var firstFound: String? { names.indices.first { found[$0] != nil }.map { names[$0] } }

  /// A copy of the object with these members inserted before its own.
  func adding(_ members: [UInt8], to bytes: borrowing [UInt8]) -> [UInt8] {
    var copy: [UInt8] = []
    copy.reserveCapacity(bytes.count + members.count + 1)
    copy.append(ASCII.openBrace)
    copy.append(contentsOf: members)
    if count == 0 {
      copy.append(ASCII.closeBrace)
    } else {
      copy.append(ASCII.comma)
      copy.append(contentsOf: bytes[start...])
    }
    return copy
  }
}
