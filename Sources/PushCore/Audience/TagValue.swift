/// The value of a device's tag.
package enum TagValue: Hashable, Sendable {
  case text(String)
  /// Finite; -0 is 0. Integers are exact up to 2^53.
  case number(Double)
  case flag(Bool)
  /// Each member once, in the given order.
  case list([String])

  /// Texts are equal if their bytes are.
  package static func == (left: TagValue, right: TagValue) -> Bool {
    switch (left, right) {
    case (.text(let left), .text(let right)): left.hasBytes(of: right)
    case (.number(let left), .number(let right)): left == right
    case (.flag(let left), .flag(let right)): left == right
    case (.list(let left), .list(let right)): left.map(ByteText.init) == right.map(ByteText.init)
    case (.text, _), (.number, _), (.flag, _), (.list, _): false
    }
  }

  package func hash(into hasher: inout Hasher) {
    switch self {
    case .text(let text): hasher.combine(ByteText(text))
    case .number(let number): hasher.combine(number)
    case .flag(let flag): hasher.combine(flag)
    case .list(let members): hasher.combine(members.map(ByteText.init))
    }
  }
}
