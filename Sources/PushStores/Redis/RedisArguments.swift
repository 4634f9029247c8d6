import PushCore
import PushIO

/// Arguments of a script, as arbitrary bytes, encoded for the wire.
package struct RedisArguments {
  private var command = RedisCommand()
  package private(set) var count = 0

  package init() {}

  package var encoded: [UInt8] { command.bytes }

  package mutating func append(_ text: String) {
    command.append(text)
    count += 1
  }

  package mutating func append(_ bytes: [UInt8]) {
    command.append(bytes)
    count += 1
  }

  /// In decimal.
  package mutating func append(_ number: Int64) {
    command.append(number)
    count += 1
  }

  package mutating func append(_ number: Int) { append(Int64(number)) }
}
