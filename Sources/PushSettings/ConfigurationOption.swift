/// One option: its path, default and rule. The table is `ConfigurationOption.all`.
package struct ConfigurationOption: Sendable {
  package enum Kind: Sendable {
    case text(ConfigurationTextRule)
    case texts(ConfigurationTextRule, maximum: Int)
    case integer(ClosedRange<Int>)
    /// Ascending.
    case integers(ClosedRange<Int>, maximum: Int)
    case number(ClosedRange<Double>)
    case flag
    case choice([String])
  }

  /// Section and key (`rabbitmq.url`), or the key alone (`lanes`).
  package let path: String
  package let kind: Kind
  package let defaultValue: ConfigurationValue
  /// Its purpose, as in the annotated file.
  package let purpose: String
  /// SIGHUP applies a new value; other options require a restart.
  package let isReloadable: Bool

  init(
    _ path: String, _ kind: Kind, _ defaultValue: ConfigurationValue, _ purpose: String, isReloadable: Bool = false
  ) {
    self.path = path
    self.kind = kind
    self.defaultValue = defaultValue
    self.purpose = purpose
    self.isReloadable = isReloadable
  }

  /// `HERALD_RABBITMQ_URL` for `rabbitmq.url`.
  package var environmentName: String {
    "HERALD_" + path.uppercased().replacing(".", with: "_")
  }

  /// The section, if the option is in one.
  var section: Substring? {
    path.firstIndex(of: ".").map { path[..<$0] }
  }

  /// May be null, which turns it off.
  var isOptional: Bool { defaultValue == .none }

  /// May contain a password, so its value is never printed unchanged.
  package var isSecret: Bool {
    switch kind {
    case .text(let rule), .texts(let rule, _): rule.mayHoldPassword
    case .integer, .integers, .number, .flag, .choice: false
    }
  }

  /// The rule for a value: the second half of "must be …".
  package var rule: String {
    switch kind {
    case .text(let rule): rule.description
    case .texts(let rule, let maximum): "a list of at most \(maximum) values, each \(rule.description)"
    case .integer(let bounds): "an integer from \(bounds.lowerBound) to \(bounds.upperBound)"
    case .integers(let bounds, let maximum):
      "an ascending list of 1 to \(maximum) integers, each from \(bounds.lowerBound) to \(bounds.upperBound)"
    case .number(let bounds): "a number from \(bounds.lowerBound) to \(bounds.upperBound)"
    case .flag: "true or false"
    case .choice(let choices): "one of " + choices.joined(separator: ", ")
    }
  }

  /// Default, rule and environment name in one line, as in the annotated file.
  package var summary: String {
    let reload = isReloadable ? "; taken on SIGHUP" : ""
    return "Default \(defaultValue.yaml); \(rule)\(isOptional ? ", or null" : "")\(reload). \(environmentName)"
  }

  /// The value, or nil if it breaks the rule.
  func parse(_ input: ConfigurationInput) -> ConfigurationValue? {
    switch (kind, input) {
    case (_, .null):
      return isOptional ? ConfigurationValue.none : nil
    case (.text(let rule), .scalar(let text, _)):
      return rule.accepts(text) ? .text(text) : nil
    case (.texts(let rule, let maximum), .list(let items)):
      let texts = items.compactMap { item in if case .scalar(let text, _) = item { text } else { nil } }
      guard texts.count == items.count, texts.count <= maximum, texts.allSatisfy(rule.accepts) else { return nil }
      return .texts(texts)
    case (.integer(let bounds), .scalar(let text, isPlain: true)):
      guard let number = Int(text), bounds.contains(number) else { return nil }
      return .integer(number)
    case (.integers(let bounds, let maximum), .list(let items)):
      let numbers = items.compactMap { item in if case .scalar(let text, true) = item { Int(text) } else { nil } }
      guard numbers.count == items.count, (1...maximum).contains(numbers.count), numbers.allSatisfy(bounds.contains),
        zip(numbers, numbers.dropFirst()).allSatisfy({ $0 < $1 })
      else { return nil }
      return .integers(numbers)
    case (.number(let bounds), .scalar(let text, isPlain: true)):
      guard let number = Double(text), bounds.contains(number) else { return nil }
      return .number(number)
    case (.flag, .scalar(let text, isPlain: true)):
      return text == "true" ? .flag(true) : text == "false" ? .flag(false) : nil
    case (.choice(let choices), .scalar(let text, _)):
      return choices.contains(text) ? .text(text) : nil
    case (_, .scalar), (_, .list), (_, .mapping):
      return nil
    }
  }

  /// The text of an environment variable or flag: commas separate a list's values.
  func input(of text: String) -> ConfigurationInput {
    switch kind {
    case .texts, .integers:
      if text.isEmpty { return .list([]) }
      return .list(
        text.split(separator: ",", omittingEmptySubsequences: false).map {
          .scalar($0.trimmingPrefix(while: \.isWhitespace).description, isPlain: true)
        })
    case .text, .integer, .number, .flag, .choice:
      return .scalar(text, isPlain: true)
    }
  }

  /// A refused value for messages: without passwords, whatever the option is for, and shortened.
  func shown(_ input: ConfigurationInput) -> String {
    if case .text(.file) = kind, case .scalar(let text, _) = input, ConfigurationTextRule.isSecret(text) {
      return ConfigurationTextRule.secret
    }
    let safe = input.hidden(isURL: isSecret).description
    return safe.count <= 100 ? safe : safe.prefix(100) + "…"
  }
}

/// A value from a file, variable or flag before it has its option's type.
enum ConfigurationInput: Sendable, CustomStringConvertible {
  case null
  /// `isPlain`: written without quotes, so it may be a number or true and false.
  case scalar(String, isPlain: Bool)
  case list([ConfigurationInput])
  case mapping

  /// Without what may be passwords.
  /// - Parameter isURL: it was to be a URL.
  func hidden(isURL: Bool) -> ConfigurationInput {
    switch self {
    case .null, .mapping: self
    case .scalar(let text, _):
      switch ServiceAddress.hidden(text, isURL: isURL) {
      case text: self
      case let shown: .scalar(shown, isPlain: true)
      }
    case .list(let items): .list(items.map { $0.hidden(isURL: isURL) })
    }
  }

  var description: String {
    switch self {
    case .null: "null"
    case .scalar(let text, isPlain: true): text.isEmpty ? "nothing" : text
    case .scalar(let text, isPlain: false): "\"\(text)\""
    case .list(let items): "[" + items.map(\.description).joined(separator: ", ") + "]"
    case .mapping: "a mapping"
    }
  }
}
