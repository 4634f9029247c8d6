import PushCore

/// `POST /keys`: what a signing key may be used for.
enum ControlKeys {
  /// Reads `KEY environment=sandbox topics=A/B related=KEY team=T`, `KEY any`, `KEY revoked`. An unregistered key is accepted only with
  /// `--any-key`, and needs its team.
  static func set(_ line: String, _ state: inout SimulatorState) throws(FaultSyntaxError) {
    let words = line.split(separator: " ").map(String.init)
    guard words.count >= 2, let id = words.first else {
      throw FaultSyntaxError(word: line, rule: "a key's id and what it is for")
    }
    var team: String?
    for word in words where word.hasPrefix("team=") { team = String(word.dropFirst(5)) }
    guard var key = state.service.tokens.keys[id] ?? unregistered(id, team, state) else {
      throw FaultSyntaxError(word: id, rule: "a registered key, or with --any-key any key and its team=T")
    }
    for word in words.dropFirst() {
      let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
      switch (parts[0], parts.count == 2 ? parts[1] : nil) {
      case ("environment", "production"?): key.environment = .production
      case ("environment", "sandbox"?): key.environment = .sandbox
      case ("topics", let topics?): key.topics = Set(topics.split(separator: "/").map(String.init))
      case ("related", let other?): key.relatedKey = other
      case ("team", let team?): key.team = team
      case ("any", nil):
        key.environment = nil
        key.topics = nil
        key.relatedKey = nil
        key.isRevoked = false
      case ("revoked", nil): state.pendingActions.append(.revoke(key: id))
      default: throw FaultSyntaxError(word: word, rule: "environment=, topics=A/B, related=, team=, any or revoked")
      }
    }
    state.service.tokens.register(key)
  }

  private static func unregistered(_ id: String, _ team: String?, _ state: SimulatorState) -> RegisteredKey? {
    guard state.service.tokens.acceptsAnyKey, let team else { return nil }
    return RegisteredKey(team: team, key: id) { _ in true }
  }
}
