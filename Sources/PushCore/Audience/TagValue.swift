/// What a device's tag holds.
package enum TagValue: Hashable, Sendable {
  case text(String)
  /// Finite; -0 is 0. Integers are exact up to 2^53.
  case number(Double)
  case flag(Bool)
  /// Each of them once, in the order in which they were given.
  case list([String])
}
