/// A device, from its app's view.
struct SimulatedPhone: Hashable, Sendable {
  private static let devicesOfUser = 4
  private static let prefixes = ["aaaa", "aaaa", "aaaa", "aaaa", "aaaa", "dead", "1503", "bad0", "aaaa", "aaaa"]

  /// What an app registers together.
  enum Part: CaseIterable, Sendable { case token, startToken, user }

  let name: String
  let user: String
  let token: String
  let startToken: String
  let isGold: Bool
  let systemVersion: String
  private let hasTwins: Bool

  /// - Parameters:
  ///   - version: the token's version.
  ///   - app: that registers it.
  init(_ number: Int, version: Int, app: SimulatedApp, _ settings: WorkerWorld.Settings) {
    hasTwins = settings.hasTwins
    name = SimulatedPhone.name(number, settings)
    user = SimulatedPhone.user(of: number, settings)
    token = SimulatedPhone.token(
      version == 0 ? SimulatedPhone.prefixes[number % SimulatedPhone.prefixes.count] : "aaaa", "d", number, version, app
    )
    startToken = SimulatedPhone.token("aaaa", "b", number, 0, app)
    isGold = SimulatedPhone.isGold(number)
    systemVersion = settings.channelAbove != nil && number % 4 == 3 ? "17.7" : "18.1"
  }

  static func name(_ number: Int, _ settings: WorkerWorld.Settings) -> String { text("phone", number, settings) }
  static func user(of number: Int, _ settings: WorkerWorld.Settings) -> String {
    text("user", number / devicesOfUser, settings)
  }
  static func isGold(_ number: Int) -> Bool { number % 2 == 0 }

  /// Every second one has a twin.
  private static func text(_ kind: String, _ number: Int, _ settings: WorkerWorld.Settings) -> String {
    settings.hasTwins ? "\(kind)-(\(1 + number % 2))-\(number / 2)" : "\(kind)-\(number)"
  }

  static func updateToken(_ number: Int, _ activity: Int, _ app: SimulatedApp) -> String {
    token(number % 7 == 6 ? "dead" : "aaaa", "c", number, activity, app)
  }

  private static func token(
    _ prefix: String, _ kind: String, _ number: Int, _ version: Int, _ app: SimulatedApp
  ) -> String {
    let tail = "\(kind)\(version)" + String(1_000 + number)
    return prefix + String(repeating: app.tokenDigit, count: 60 - tail.count) + tail
  }

  /// The value of the tag `plan` that the segment asks for.
  static func gold(_ hasTwins: Bool) -> String { hasTwins ? "gold-(1)" : "gold" }

  private var tags: String {
    let plan = isGold ? SimulatedPhone.gold(hasTwins) : hasTwins ? "gold-(2)" : "free"
    return "\"tags\":{\"plan\":\"\(plan)\"}"
  }

  private func fields(_ part: Part) -> String {
    switch part {
    case .token: return "\"token\":\"\(token)\""
    case .startToken: return "\"push_to_start\":{\"*\":\"\(startToken)\"},\"os_version\":\"\(systemVersion)\""
    case .user:
      return "\"user\":\"\(user)\",\(tags)"
    }
  }

  /// Of a registration.
  /// - Parameter part: nil: all.
  func fields(_ part: Part?) -> String {
    let device = "\"device\":\"\(name)\","
    if let part { return device + fields(part) }
    return device
      + "\"user\":\"\(user)\",\"token\":\"\(token)\",\"push_to_start\":{\"*\":\"\(startToken)\"},"
      + "\"os_version\":\"\(systemVersion)\",\(tags)"
  }
}
