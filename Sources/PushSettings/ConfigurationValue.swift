/// The value of one option, as parsed.
package enum ConfigurationValue: Hashable, Sendable {
  case none
  case text(String)
  case integer(Int)
  case number(Double)
  case flag(Bool)
  case texts([String])
  case integers([Int])

  /// The value in YAML.
  package var yaml: String {
    switch self {
    case .none: "null"
    case .text(let text): text
    case .integer(let number): String(number)
    case .number(let number): String(number)
    case .flag(let flag): String(flag)
    case .texts(let texts): "[" + texts.joined(separator: ", ") + "]"
    case .integers(let numbers): "[" + numbers.map(String.init).joined(separator: ", ") + "]"
    }
  }
}
