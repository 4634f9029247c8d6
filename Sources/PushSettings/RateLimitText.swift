import PushCore

/// Parses an override of the rate limits: `com.example.app/liveactivity=50:5`.
enum RateLimitText {
  /// nil if the text is invalid, or its limit takes more than 30 days to refill.
  static func parse(_ text: String) -> RateLimits.Override? {
    let halves = text.split(separator: "=", omittingEmptySubsequences: false)
    guard halves.count == 2 else { return nil }
    let names = halves[0].split(separator: "/", omittingEmptySubsequences: false)
    guard names.count == 2 else { return nil }
    let app = names[0] == "*" ? "" : names[0]
    guard names[0] == "*" || (1...Limits.appBytesMaximum).contains(app.utf8.count),
      app.utf8.allSatisfy(ConfigurationTextRule.isNameByte)
    else { return nil }
    var type: PushType?
    if names[1] != "*" {
      type = PushType.named.first { $0.name == names[1] }
      if type == nil { return nil }
    }
    if halves[1] == "0" { return RateLimits.Override(app: Array(app.utf8), pushType: type, limit: nil) }
    let numbers = halves[1].split(separator: ":", omittingEmptySubsequences: false)
    guard numbers.count == 2, let burst = Int(numbers[0]), (1...1000).contains(burst),
      let perSecond = Double(numbers[1]), (0.001...1000).contains(perSecond),
      let limit = RateLimit(burst: burst, perSecond: perSecond)
    else { return nil }
    return RateLimits.Override(app: Array(app.utf8), pushType: type, limit: limit)
  }
}
