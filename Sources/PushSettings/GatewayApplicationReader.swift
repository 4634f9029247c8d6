import PushCore

/// Reads the file's `gateway.applications`, and reports what is wrong with each.
struct GatewayApplicationReader {
  private static let keys = ["app", "environment", "id_attribute", "default_alert.title", "default_alert.body"]
  private static let idAttributeDefault = "pushwoosh.activityId"

  private let file: ConfigurationFile
  private(set) var problems: [ConfigurationError.Problem] = []

  init(file: ConfigurationFile) {
    self.file = file
  }

  /// By code.
  mutating func read() -> [String: LiveActivitiesApplication] {
    var applications: [String: LiveActivitiesApplication] = [:]
    for (code, item) in file.applications { applications[code] = read(code, item) }
    return applications
  }

  private mutating func read(_ code: String, _ item: ConfigurationFile.Item) -> LiveActivitiesApplication? {
    let path = "gateway.applications.\(code)"
    guard let entries = item.entries else {
      return refuse(path, item.line, "must be a mapping of app, environment, id_attribute and default_alert")
    }
    let count = problems.count
    var texts: [String: String] = [:]
    for entry in entries {
      switch entry.input {
      case .null: break
      case .scalar(let text, _) where Self.keys.contains(entry.path): texts[entry.path] = text
      case .scalar, .list, .mapping:
        let nearest = NearestName.find(entry.path, in: Self.keys).map { "; did you mean \($0)?" } ?? ""
        let rule =
          Self.keys.contains(entry.path)
          ? "must be a text, not \(entry.input.hidden(isURL: false))" : "unknown key\(nearest)"
        _ = refuse("\(path).\(ServiceAddress.hidden(entry.path))", entry.line, rule)
      }
    }
    let word = texts["environment", default: APNsEnvironment.production.name]
    guard let environment = APNsEnvironment.allCases.first(where: { $0.name == word }) else {
      return refuse(
        "\(path).environment", item.line, "must be production or sandbox, not \(ServiceAddress.hidden(word))")
    }
    guard let scope = texts["app"].flatMap({ AppScope(app: $0, environment: environment) }) else {
      return refuse("\(path).app", item.line, "must be a bundle id: letters, digits, '.', '_' and '-'")
    }
    guard let attribute = ActivityIDAttribute(texts["id_attribute", default: Self.idAttributeDefault]) else {
      return refuse("\(path).id_attribute", item.line, "must be \(ConfigurationTextRule.attributePath)")
    }
    let alert = (texts["default_alert.title"], texts["default_alert.body"])
    if (alert.0 == nil) != (alert.1 == nil) {
      return refuse("\(path).default_alert", item.line, "must have both, title and body")
    }
    guard problems.count == count else { return nil }
    return LiveActivitiesApplication(
      scope: scope, idAttribute: attribute,
      defaultAlert: alert.0.map { LiveActivitiesApplication.Alert(title: $0, body: alert.1 ?? "") })
  }

  private mutating func refuse(_ path: String, _ line: Int?, _ text: String) -> LiveActivitiesApplication? {
    problems.append(ConfigurationError.Problem(origin: file.origin(line), path: path, text: text))
    return nil
  }
}
