import PushCore

/// Device tokens that misbehave by their first four digits: the simplest way to request an answer in a test.
package struct TokenPrefixTable: Sendable {
  package struct Row: Sendable {
    /// Four hexadecimal digits.
    package let prefix: String
    /// As in `FaultRule`.
    package let fault: String
    package let meaning: String
  }

  /// The table as it is documented and printed by `apns-simulator --prefixes`.
  package static let rows: [Row] = [
    Row(prefix: "dead", fault: "status=410,reason=Unregistered", meaning: "410 Unregistered, gone for an hour"),
    Row(prefix: "dea1", fault: "status=410,reason=ExpiredToken", meaning: "410 ExpiredToken, gone for an hour"),
    Row(prefix: "dea2", fault: "status=410,reason=Unregistered,timestamp=1000", meaning: "410 Unregistered since 1970"),
    Row(prefix: "bad0", fault: "status=400,reason=BadDeviceToken", meaning: "400 BadDeviceToken"),
    Row(prefix: "bad1", fault: "status=400,reason=DeviceTokenNotForTopic", meaning: "400 DeviceTokenNotForTopic"),
    Row(prefix: "bad2", fault: "status=400,reason=TopicDisallowed", meaning: "400 TopicDisallowed"),
    Row(prefix: "bad3", fault: "status=400,reason=SomethingNew", meaning: "400 with a reason nobody knows"),
    Row(prefix: "bad4", fault: "status=400,reason=BadDeviceToken,body=missing", meaning: "400 without a body"),
    Row(
      prefix: "bad5", fault: "status=400,reason=BadDeviceToken,body=split:5", meaning: "400, its body in many frames"),
    Row(prefix: "bad6", fault: "status=400,reason=BadDeviceToken,body=raw:<html>", meaning: "400, its body not JSON"),
    Row(prefix: "4030", fault: "status=403,reason=ExpiredProviderToken", meaning: "403 ExpiredProviderToken"),
    Row(prefix: "4031", fault: "status=403,reason=InvalidProviderToken", meaning: "403 InvalidProviderToken"),
    Row(prefix: "4130", fault: "status=413,reason=PayloadTooLarge", meaning: "413 PayloadTooLarge"),
    Row(prefix: "7007", fault: "status=429,reason=TooManyRequests", meaning: "429 TooManyRequests"),
    Row(
      prefix: "7008", fault: "status=429,reason=TooManyProviderTokenUpdates", meaning: "429 TooManyProviderTokenUpdates"
    ),
    Row(prefix: "5000", fault: "status=500,reason=InternalServerError", meaning: "500 InternalServerError"),
    Row(prefix: "5001", fault: "status=500,reason=SomethingNew", meaning: "500 with a reason nobody knows"),
    Row(prefix: "5030", fault: "status=503,reason=ServiceUnavailable", meaning: "503 ServiceUnavailable"),
    Row(prefix: "5031", fault: "status=503,reason=Shutdown", meaning: "503 Shutdown"),
    Row(
      prefix: "1429", fault: "attempts=1,status=429,reason=TooManyRequests", meaning: "429 at the first try, then 200"),
    Row(
      prefix: "1500", fault: "attempts=1,status=500,reason=InternalServerError",
      meaning: "500 at the first try, then 200"),
    Row(
      prefix: "1503", fault: "attempts=1,status=503,reason=ServiceUnavailable",
      meaning: "503 at the first try, then 200"),
    Row(
      prefix: "2503", fault: "attempts=2,status=503,reason=ServiceUnavailable", meaning: "503 at two tries, then 200"),
    Row(prefix: "f007", fault: "attempts=1,reset=7", meaning: "REFUSED_STREAM at the first try, then 200"),
    Row(prefix: "f002", fault: "attempts=1,reset=2", meaning: "RST_STREAM INTERNAL_ERROR at the first try, then 200"),
    Row(
      prefix: "f008", fault: "attempts=1,reset=8,processed",
      meaning: "accepted, then RST_STREAM CANCEL; later tries 200"),
    Row(prefix: "d0b0", fault: "attempts=1,drop", meaning: "the connection breaks before the first try, then 200"),
    Row(prefix: "d0a0", fault: "attempts=1,drop,processed", meaning: "accepted, then the connection breaks; then 200"),
    Row(prefix: "ab50", fault: "silence,processed", meaning: "accepted, never answered"),
    Row(prefix: "ab51", fault: "attempts=1,silence", meaning: "the first try is never answered, then 200"),
    Row(
      prefix: "60a0", fault: "attempts=1,goaway=this,reason=Shutdown",
      meaning: "GOAWAY behind this request, which is answered"),
    Row(
      prefix: "60a1", fault: "attempts=1,goaway=previous", meaning: "GOAWAY below this request, which is not processed"),
    Row(prefix: "51a0", fault: "latency=100", meaning: "200 after 100 ms"),
    Row(prefix: "51a1", fault: "latency=1000", meaning: "200 after 1 s"),
    Row(prefix: "51a2", fault: "latency=20-200", meaning: "200 after 20 to 200 ms"),
    Row(prefix: "ac71", fault: "register=5000", meaning: "started activities register their update token after 5 s"),
    Row(prefix: "ac72", fault: "register=never", meaning: "started activities never register an update token"),
    Row(prefix: "ac73", fault: "lost", meaning: "a stale start token: 200, and nothing is shown"),
    Row(prefix: "ac74", fault: "swipe=1000", meaning: "started activities are swiped away after 1 s"),
    Row(prefix: "ac75", fault: "renew=1000", meaning: "update tokens are replaced 1 s after they were registered"),
  ]

  /// By the four digits as a number.
  private let rules: [UInt16: FaultRule]

  package init() throws(FaultSyntaxError) {
    var rules: [UInt16: FaultRule] = [:]
    for row in TokenPrefixTable.rows {
      guard let key = UInt16(row.prefix, radix: 16) else {
        throw FaultSyntaxError(word: row.prefix, rule: "four digits")
      }
      rules[key] = try FaultRule(row.fault)
    }
    self.rules = rules
  }

  package init(empty: Void) {
    rules = [:]
  }

  package var isEmpty: Bool { rules.isEmpty }

  /// The rule for a token, by its first digits.
  func rule(for token: Span<UInt8>) -> FaultRule? {
    guard token.count >= 4 else { return nil }
    var key: UInt16 = 0
    for index in 0..<4 {
      guard let digit = Hex.value(token[index]) else { return nil }
      key = key << 4 | UInt16(digit)
    }
    return rules[key]
  }
}
