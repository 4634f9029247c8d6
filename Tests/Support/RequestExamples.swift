package import PushCore

/// Jobs whose requests break each of Apple's rules for path and headers.
package enum RequestExamples {
  package struct Example: Sendable, CustomStringConvertible {
    package let rule: RequestRule
    package let pushType: String
    package let payload: String
    /// Fields in place of a good job's, as JSON.
    package let changes: [(String, String?)]
    /// Part of the error.
    package let text: String

    init(
      _ rule: RequestRule, of pushType: String = "alert", _ changes: [(String, String?)],
      payload: String = "{\"aps\":{\"alert\":\"Hello\"}}", _ text: String
    ) {
      self.rule = rule
      self.pushType = pushType
      self.payload = payload
      self.changes = changes
      self.text = text
    }

    package var description: String { "\(rule) \(pushType) \(changes)" }
  }

  private static let end = "{\"aps\":{\"timestamp\":1,\"event\":\"end\"}}"
  private static let channel: (String, String?) = ("to", "{\"channel\":\"dHN0LXNyY2gtY2hubA==\"}")

  /// An alert of this many bytes.
  private static func alert(bytes: Int) -> String {
    "{\"aps\":{\"alert\":\"" + String(repeating: "x", count: bytes - 20) + "\"}}"
  }

  package static let refused: [Example] = [
    Example(.app, [("app", "\"com example\"")], "not \"com example\""),
    Example(.topic, [("topic", "\"com example\"")], "not \"com example\""),
    Example(.topic, [("topic", "\"com.example.app.\"")], "not \"com.example.app.\""),
    Example(.topic, of: "voip", [("topic", "\".voip\"")], payload: "{\"a\":1}", "not \".voip\""),
    Example(
      .topicOfType, [("topic", "\"com.example.app.voip\"")],
      "must not end with .voip, which is for voip, not for alert: leave it out"),
    Example(
      .topicOfType, of: "voip", [("topic", "\"com.example.app\"")], payload: "{\"a\":1}",
      "must end with .voip for voip, not \"com.example.app\""),
    Example(
      .topicOfType, of: "accessory", [("topic", "\"com.example.app.push-type.widgets\"")],
      payload: PayloadExamples.accessory, "must end with .push-type.accessory for accessory"),
    Example(.pushTypeForm, of: "a b", [], "not a b"),
    Example(.pushTypeKnown, of: "hologram", [], "hologram has none"),
    Example(.priority, [("priority", "7")], "must be one of 10, 5, 1 for alert, not 7"),
    Example(.priority, of: "background", [("priority", "10")], "must be 5 for background, not 10"),
    Example(.priority, of: "location", [("priority", "1")], payload: "{\"aps\":{}}", "not 1"),
    Example(.priority, of: "liveactivity", [("priority", "1")], payload: end, "one of 10, 5 for liveactivity, not 1"),
    Example(.priority, of: "liveactivity", [channel, ("priority", "1")], payload: end, "not 1"),
    Example(.priority, of: "pushtotalk", [("priority", "5")], payload: "{\"a\":1}", "must be 10 for pushtotalk, not 5"),
    Example(.expiration, [("expiration", "-1")], "not -1"),
    Example(.expiration, [("expiration", "1796083200000")], "not 1796083200000"),
    Example(
      .expirationOnly, of: "pushtotalk", [("expiration", "1796083200")], payload: "{\"a\":1}",
      "must be 0 for pushtotalk"),
    Example(
      .collapseIDLength, [("collapse_id", "\"" + String(repeating: "x", count: 65) + "\"")],
      "must be at most 64 bytes, not 65"),
    Example(
      .collapseIDNone, of: "accessory", [("collapse_id", "\"a\"")], payload: PayloadExamples.accessory,
      "must be left out for accessory"),
    Example(
      .priority, of: "accessory", [("priority", "7")], payload: PayloadExamples.accessory,
      "must be one of 10, 5, 1 for accessory, not 7"),
    Example(.collapseIDForm, [("collapse_id", "\"a\\nb\"")], "no control characters"),
    Example(.tokenMissing, [("to", "{\"token\":\"\"}")], "hexadecimal digits"),
    Example(.token, [("to", "{\"token\":\"00fc13adf\"}")], "an even number, not \"00fc13adf\""),
    Example(.token, [("to", "{\"token\":\"zzzzzzzz\"}")], "not \"zzzzzzzz\""),
    Example(.channel, of: "liveactivity", [("to", "{\"channel\":\"a b\"}")], payload: end, "not \"a b\""),
    Example(.channelPushType, [channel], "takes the push type liveactivity, not alert"),
    Example(.payloadLength, [], payload: alert(bytes: 4097), "must be at most 4096 bytes for alert, not 4097"),
    Example(
      .payloadLength, of: "voip", [], payload: "{\"a\":\"" + String(repeating: "x", count: 5113) + "\"}",
      "must be at most 5120 bytes for voip, not 5121"),
  ]
}
