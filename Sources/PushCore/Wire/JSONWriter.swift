/// Writes JSON into reserved room: the length is bounded first, so no byte needs a check for room. `append(addingCapacity:)` of an array
/// gives such a span; writing past its end traps.
extension OutputSpan<UInt8> {
  /// Appends constant text as it is.
  @inline(__always)
  package mutating func append(text: String) {
    append(bytes: text.utf8.span)
  }

  /// Appends bytes as they are.
  @inline(__always)
  package mutating func append(bytes: Span<UInt8>) {
    for index in 0..<bytes.count { append(bytes[index]) }
  }

  /// Appends a number in decimal: at most 20 bytes.
  package mutating func append(decimal value: Int64) {
    if value < 0 { append(ASCII.minus) }
    let start = count
    var rest = value.magnitude
    repeat {
      let quotient = rest / 10
      append(ASCII.zero &+ UInt8(truncatingIfNeeded: rest &- quotient &* 10))
      rest = quotient
    } while rest > 0
    // The digits came lowest first.
    var low = start
    var high = count &- 1
    while low < high {
      swapAt(low, high)
      low &+= 1
      high &-= 1
    }
  }

  /// Appends UTF-8 text as a JSON string with quotes and the necessary escapes: at most six bytes for each byte of the text, and two.
  package mutating func append(jsonString text: Span<UInt8>) {
    append(ASCII.quote)
    for index in 0..<text.count {
      let byte = text[index]
      if byte >= ASCII.space && byte != ASCII.quote && byte != ASCII.backslash {
        append(byte)
      } else if byte >= ASCII.space {
        append(ASCII.backslash)
        append(byte)
      } else {
        append(text: "\\u00")
        append(ASCII.zero &+ byte >> 4)
        append(Hex.digit(byte & 15))
      }
    }
    append(ASCII.quote)
  }
}

extension [UInt8] {
  /// Appends constant text as it is.
  @inline(__always)
  package mutating func append(text: String) {
    append(contentsOf: text.utf8)
  }

  /// Appends part of another array as it is.
  @inline(__always)
  package mutating func append(_ range: ByteRange, of other: borrowing [UInt8]) {
    append(contentsOf: other[range.range])
  }

  /// Appends UTF-8 text as a JSON string.
  package mutating func append(jsonString text: String) {
    let span = text.utf8.span
    append(addingCapacity: JSONText.countMaximum(span.count)) { $0.append(jsonString: span) }
  }

  /// Appends a number in decimal.
  package mutating func append(decimal value: Int64) {
    append(addingCapacity: 20) { $0.append(decimal: value) }
  }
}

/// Lengths of JSON strings.
package enum JSONText {
  /// The maximum length that `append(jsonString:)` writes for a text of this many bytes.
  package static func countMaximum(_ count: Int) -> Int { count * 6 + 2 }
}
