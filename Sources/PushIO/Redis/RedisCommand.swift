import PushCore

/// A command as a RESP array, in a reusable buffer.
///
/// We do not use hiredis' formatter: it allocates a string for every command, which was the largest part of its cost, and a hot command
/// here is mostly constant. Such a command is built once. `append` returns the offset of each argument, and only those bytes are
/// overwritten before it is sent again.
package struct RedisCommand: Sendable {
  /// The bytes on the wire. Overwritten bytes keep their length.
  package var bytes: [UInt8] = []

  package init() {}

  package init(_ arguments: [String]) {
    begin(argumentCount: arguments.count)
    for argument in arguments { append(argument) }
  }

  /// Starts a new command.
  package mutating func begin(argumentCount: Int) {
    precondition(argumentCount >= 1)
    bytes.removeAll(keepingCapacity: true)
    writeCount(UInt8(ascii: "*"), argumentCount)
  }

  /// Appends an argument and returns the offset of its first byte.
  @discardableResult
  package mutating func append(_ argument: Span<UInt8>) -> Int {
    writeCount(UInt8(ascii: "$"), argument.count)
    let offset = bytes.count
    bytes.reserveCapacity(offset + argument.count + 2)
    unsafe argument.withUnsafeBufferPointer { unsafe bytes.append(contentsOf: $0) }
    writeLineEnd()
    return offset
  }

  @discardableResult
  package mutating func append(_ argument: [UInt8]) -> Int {
    append(argument.span)
  }

  @discardableResult
  package mutating func append(_ argument: String) -> Int {
    append(argument.utf8.span)
  }

  /// Appends arguments that are already encoded.
  package mutating func append(encoded arguments: [UInt8]) {
    bytes.append(contentsOf: arguments)
  }

  /// Appends the integer in decimal.
  package mutating func append(_ value: Int64) {
    var digits = 1
    var rest = value.magnitude
    while rest >= 10 {
      rest /= 10
      digits += 1
    }
    writeCount(UInt8(ascii: "$"), digits + (value < 0 ? 1 : 0))
    if value < 0 { bytes.append(UInt8(ascii: "-")) }
    let offset = bytes.count
    bytes.append(contentsOf: repeatElement(UInt8(ascii: "0"), count: digits))
    overwrite(value.magnitude, at: offset, digits: digits)
    writeLineEnd()
  }

  /// Writes the number over `digits` bytes, with leading zeros. A number that is too large keeps its low digits.
  private mutating func overwrite(_ value: UInt64, at offset: Int, digits: Int) {
    precondition(offset >= 0 && offset + digits <= bytes.count)
    var span = bytes.mutableSpan
    var rest = value
    var index = offset + digits
    while index > offset {
      index -= 1
      span[index] = UInt8(ascii: "0") + UInt8(rest % 10)
      rest /= 10
    }
  }

  /// Removes the bytes from `count` on, to append other arguments.
  package mutating func truncate(to count: Int) {
    bytes.removeSubrange(count...)
  }

  private mutating func writeCount(_ marker: UInt8, _ count: Int) {
    bytes.append(marker)
    var divisor = 1
    while count / divisor >= 10 { divisor *= 10 }
    while divisor > 0 {
      bytes.append(UInt8(ascii: "0") + UInt8(count / divisor % 10))
      divisor /= 10
    }
    writeLineEnd()
  }

  private mutating func writeLineEnd() {
    bytes.append(UInt8(ascii: "\r"))
    bytes.append(UInt8(ascii: "\n"))
  }
}
