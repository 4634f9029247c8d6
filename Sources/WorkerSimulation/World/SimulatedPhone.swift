/// A device, from its app's view.
struct SimulatedPhone: Hashable, Sendable {
  private static let devicesOfUser = 4
  private static let prefixes = ["aaaa", "aaaa", "aaaa", "aaaa", "aaaa", "dead", "1503", "bad0", "aaaa", "aaaa"]

  let name: String
  let user: String
  let token: String
  let startToken: String
  let isGold: Bool
  let systemVersion: String

  /// - Parameters:
  ///   - version: the token's version.
  ///   - mayBeOld: its system may have no broadcast channels.
  init(_ number: Int, version: Int, mayBeOld: Bool) {
    name = SimulatedPhone.name(number)
    user = SimulatedPhone.user(of: number)
    token = SimulatedPhone.token(
      version == 0 ? SimulatedPhone.prefixes[number % SimulatedPhone.prefixes.count] : "aaaa", "d", number, version)
    startToken = SimulatedPhone.token("aaaa", "b", number, 0)
    isGold = SimulatedPhone.isGold(number)
    systemVersion = mayBeOld && number % 4 == 3 ? "17.7" : "18.1"
  }

  static func name(_ number: Int) -> String { "phone-\(number)" }
  static func user(of number: Int) -> String { "user-\(number / devicesOfUser)" }
  static func isGold(_ number: Int) -> Bool { number % 2 == 0 }

  static func updateToken(_ number: Int, _ activity: Int) -> String {
    token(number % 7 == 6 ? "dead" : "aaaa", "c", number, activity)
  }

  private static func token(_ prefix: String, _ kind: String, _ number: Int, _ version: Int) -> String {
    let tail = "\(kind)\(version)" + String(1_000 + number)
    return prefix + String(repeating: "0", count: 60 - tail.count) + tail
  }

  var fields: String {
    "\"device\":\"\(name)\",\"user\":\"\(user)\",\"token\":\"\(token)\",\"push_to_start\":{\"*\":\"\(startToken)\"},"
      + "\"os_version\":\"\(systemVersion)\",\"tags\":{\"plan\":\"\(isGold ? "gold" : "free")\"}"
  }
}
