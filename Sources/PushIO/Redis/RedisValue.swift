package import PushCore

/// One value of a reply as the reader recorded it: an array's values follow it, depth first.
package struct RedisValue: Sendable {
  package enum Kind: UInt8, Sendable {
    case integer, bulk, status, error, null, array
  }

  package var kind: Kind
  /// The integer, or how many values an array has.
  package var integer: Int64
  /// The text of a bulk, status or error, in the reply's bytes.
  package var text: ByteRange

  package init(kind: Kind, integer: Int64 = 0, text: ByteRange = .empty) {
    self.kind = kind
    self.integer = integer
    self.text = text
  }
}
