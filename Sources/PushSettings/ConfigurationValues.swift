/// Values by path, read with the type in the table. A wrong path or type is a bug and traps.
struct ConfigurationValues {
  private(set) var byPath: [String: ConfigurationValue]

  /// The defaults.
  init() {
    byPath = ConfigurationOption.byPath.mapValues(\.defaultValue)
  }

  mutating func set(_ path: String, _ value: ConfigurationValue) {
    precondition(byPath[path] != nil, "an option is in the table")
    byPath[path] = value
  }

  func value(_ path: String) -> ConfigurationValue {
    guard let value = byPath[path] else { preconditionFailure("\(path) is not in the table of options") }
    return value
  }

  func text(_ path: String) -> String {
    guard case .text(let text) = value(path) else { preconditionFailure("\(path) is not a text") }
    return text
  }

  func optionalText(_ path: String) -> String? {
    value(path) == .none ? nil : text(path)
  }

  func optionalInteger(_ path: String) -> Int? {
    value(path) == .none ? nil : integer(path)
  }

  func texts(_ path: String) -> [String] {
    guard case .texts(let texts) = value(path) else { preconditionFailure("\(path) is not a list of texts") }
    return texts
  }

  func integer(_ path: String) -> Int {
    guard case .integer(let number) = value(path) else { preconditionFailure("\(path) is not an integer") }
    return number
  }

  func integers(_ path: String) -> [Int] {
    guard case .integers(let numbers) = value(path) else { preconditionFailure("\(path) is not a list of integers") }
    return numbers
  }

  func number(_ path: String) -> Double {
    guard case .number(let number) = value(path) else { preconditionFailure("\(path) is not a number") }
    return number
  }

  func flag(_ path: String) -> Bool {
    guard case .flag(let flag) = value(path) else { preconditionFailure("\(path) is not a flag") }
    return flag
  }

  func choice<Choice: RawRepresentable<String>>(_ path: String) -> Choice {
    guard let choice = Choice(rawValue: text(path)) else { preconditionFailure("\(path) allows an unknown choice") }
    return choice
  }

  func service(_ path: String) -> ServiceAddress {
    guard let address = ServiceAddress(text(path), scheme: "https", defaultPort: 443) else {
      preconditionFailure("\(path) is not a service's URL")
    }
    return address
  }

  func proxy(_ path: String) -> ServiceAddress? {
    optionalText(path).flatMap { ServiceAddress($0, scheme: "http", defaultPort: 8080) }
  }
}
