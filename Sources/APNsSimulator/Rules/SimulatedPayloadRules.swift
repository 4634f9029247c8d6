/// The rules for payloads, by push type. APNs accepts many payloads that the device then silently drops. The simulator refuses them:
/// `PayloadEmpty` if there is nothing to deliver, `BadRequestPayload` for the rest.
package enum SimulatedPayloadRules {
  /// nil: valid.
  package static func refusal(of body: [UInt8], pushType: String, topic: String) -> String? {
    guard let payload = JSONValue(body), case .object(let root) = payload else { return "BadRequestPayload" }
    let isWallet = topic.hasPrefix("pass.")
    if root.isEmpty { return isWallet ? nil : "PayloadEmpty" }
    let aps: [String: JSONValue]?
    switch payload["aps"] {
    case .object(let members)?: aps = members
    case nil: aps = nil
    case .some: return "BadRequestPayload"
    }
    if let aps, !areWellFormed(aps, pushType: pushType) { return "BadRequestPayload" }
    switch pushType {
    case "alert":
      guard let aps else { return "PayloadEmpty" }
      if isWallet && aps.isEmpty { return nil }
      return aps["alert"] != nil || aps["badge"] != nil || aps["sound"] != nil ? nil : "PayloadEmpty"
    case "background":
      guard let aps, aps["content-available"]?.integer == 1 else { return "BadRequestPayload" }
      return aps["alert"] == nil && aps["badge"] == nil && aps["sound"] == nil ? nil : "BadRequestPayload"
    case "fileprovider":
      return payload["container-identifier"]?.string != nil ? nil : "BadRequestPayload"
    case "mdm":
      return root.count == 1 && payload["mdm"]?.string?.isEmpty == false ? nil : "BadRequestPayload"
    case "liveactivity":
      guard let aps else { return "PayloadEmpty" }
      return isLiveActivity(aps, isBroadcast: false) ? nil : "BadRequestPayload"
    case "widgets", "controls":
      return aps?["content-changed"] == .bool(true) ? nil : "BadRequestPayload"
    case "accessory":
      return aps.map(isAccessoryResponse) == true ? nil : "BadRequestPayload"
    default:
      return nil
    }
  }

  /// The payload of a broadcast: a Live Activity's update or end.
  package static func broadcastRefusal(of body: [UInt8]) -> String? {
    guard let payload = JSONValue(body), let aps = payload["aps"]?.object else { return "BadRequestPayload" }
    return areWellFormed(aps, pushType: "liveactivity") && isLiveActivity(aps, isBroadcast: true)
      ? nil : "BadRequestPayload"
  }

  // MARK: - aps

  private static func areWellFormed(_ aps: [String: JSONValue], pushType: String) -> Bool {
    for (key, value) in aps {
      let isRight: Bool
      switch key {
      case "alert": isRight = isAlert(value)
      case "badge": isRight = (value.integer ?? -1) >= 0
      case "sound": isRight = isSound(value)
      case "thread-id", "category", "target-content-id", "filter-criteria": isRight = value.string != nil
      case "content-available", "mutable-content": isRight = value.integer == 0 || value.integer == 1
      case "interruption-level":
        isRight = ["passive", "active", "time-sensitive", "critical"].contains(value.string ?? "")
      case "relevance-score":
        isRight = value.number.map { pushType == "liveactivity" || (0...1).contains($0) } ?? false
      case "content-changed": isRight = value == .bool(true) || value == .bool(false)
      case "url-args": isRight = isStrings(value)
      default: isRight = true
      }
      if !isRight { return false }
    }
    // An empty alert object shows nothing, even beside a badge or a sound.
    if aps["alert"] == .object([:]), aps["badge"] != nil || aps["sound"] != nil { return false }
    return true
  }

  private static func isStrings(_ value: JSONValue) -> Bool {
    value.array?.allSatisfy { $0.string != nil } ?? false
  }

  private static func isSound(_ value: JSONValue) -> Bool {
    if value.string != nil { return true }
    guard let sound = value.object else { return false }
    for (key, value) in sound {
      switch key {
      case "critical": if value.integer != 0 && value.integer != 1 { return false }
      case "name": if value.string == nil { return false }
      case "volume": if !(value.number.map { (0...1).contains($0) } ?? false) { return false }
      default: break
      }
    }
    return true
  }

  private static func isAlert(_ value: JSONValue) -> Bool {
    if value.string != nil { return true }
    guard let alert = value.object else { return false }
    for (plain, key, arguments) in [
      ("title", "title-loc-key", "title-loc-args"), ("subtitle", "subtitle-loc-key", "subtitle-loc-args"),
      ("body", "loc-key", "loc-args"),
    ] {
      // A Live Activity has the key inside: {"title": {"loc-key": …}}.
      if let text = alert[plain], text.string == nil, text["loc-key"]?.string == nil { return false }
      if let key = alert[key], key.string == nil || alert[plain] != nil { return false }
      if let arguments = alert[arguments], !isStrings(arguments) || alert[key] == nil { return false }
    }
    if let image = alert["launch-image"], image.string == nil { return false }
    return true
  }

  // MARK: - Accessories

  /// What the phone needs to decrypt an accessory's response: four strings. Source: Apple, "Responding to forwarded notifications".
  private static func isAccessoryResponse(_ aps: [String: JSONValue]) -> Bool {
    for key in ["encryptedData", "keyID"] {
      guard let text = aps[key]?.string, HeaderRules.isBase64(text) else { return false }
    }
    guard let index = aps["messageIndex"]?.string, !index.isEmpty, index.utf8.allSatisfy({ (0x30...0x39).contains($0) })
    else { return false }
    return aps["sessionIdentifier"]?.string?.isEmpty == false
  }

  // MARK: - Live Activities

  /// A larger number of seconds is a time in milliseconds.
  private static let secondsMaximum: Int64 = 100_000_000_000

  private static func isLiveActivity(_ aps: [String: JSONValue], isBroadcast: Bool) -> Bool {
    guard isSeconds(aps["timestamp"]), let event = aps["event"]?.string else { return false }
    if let state = aps["content-state"], state.object == nil { return false }
    if let date = aps["stale-date"], !isSeconds(date) || event == "end" { return false }
    if let date = aps["dismissal-date"], !isSeconds(date) || event != "end" { return false }
    let startsOnly = ["attributes-type", "attributes", "input-push-token", "input-push-channel"]
    switch event {
    case "start":
      guard !isBroadcast, aps["content-state"] != nil, aps["attributes-type"]?.string != nil,
        aps["attributes"]?.object != nil, let alert = aps["alert"]?.object, alert["title"] != nil, alert["body"] != nil
      else { return false }
      if let flag = aps["input-push-token"], flag.integer != 1 || aps["input-push-channel"] != nil { return false }
      return aps["input-push-channel"].map { $0.string?.isEmpty == false } ?? true
    case "update":
      return aps["content-state"] != nil && startsOnly.allSatisfy { aps[$0] == nil }
    case "end":
      return startsOnly.allSatisfy { aps[$0] == nil }
    default:
      return false
    }
  }

  private static func isSeconds(_ value: JSONValue?) -> Bool {
    guard let seconds = value?.integer else { return false }
    return seconds >= 0 && seconds <= secondsMaximum
  }
}
