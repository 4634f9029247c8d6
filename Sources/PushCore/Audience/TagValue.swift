/// The value of a device's tag.
package enum TagValue: Hashable, Sendable {
  case text(String)
  /// Finite; -0 is 0. Integers are exact up to 2^53.
  case number(Double)
  case flag(Bool)
  /// Each member once, in the given order.
  case list([String])
}
