/// One accepted notification, roughly as a device shows it: a banner, a call, a Live Activity. A dashed card is not shown by a device.
package struct NotificationCard {
  private let entry: LedgerEntry
  private let payload: [UInt8]
  private let root: JSONValue?
  private let aps: JSONValue?

  package init(_ notification: SeenNotification) {
    entry = notification.entry
    payload = notification.payload
    root = JSONValue(notification.payload)
    aps = root?["aps"]
  }

  /// Longer texts are cut, so that a page of a hundred cards stays readable.
  private static let charactersMaximum = 600

  package var html: String {
    let badge = aps?["badge"]?.integer.map { "<b class=badge>\($0)</b>" } ?? ""
    let app = SimulatedService.app(ofTopic: entry.topic)
    let name = app.split(separator: ".").last.map(String.init) ?? "?"
    return """
      <article class="\(style)" style="--hue:\(NotificationCard.hue(of: app))">
      <span class=icon aria-hidden=true>\(escaped(String(name.prefix(1)).uppercased()))\(badge)</span>
      <div><p class=top><b>\(escaped(app.isEmpty ? "no topic" : app))</b> <time>\(time)</time></p>
      \(content)<p class=chips>\(chips.map { "<span>\(escaped($0))</span>" }.joined())</p>
      <details><summary>\(escaped(entry.apnsID))</summary><p>to <code>\(escaped(entry.target))</code><br>
      connection \(entry.connection), stream \(entry.stream)</p><pre>\(escaped(payloadText))</pre></details></div></article>
      """
  }

  private func escaped(_ text: String) -> String { NotificationPage.escaped(text) }

  // MARK: - What it is

  private var isActivity: Bool { entry.pushType.lowercased() == "liveactivity" }

  private var isVisible: Bool {
    guard let alert = aps?["alert"] else { return false }
    return alert != .object([:]) && alert != .string("")
  }

  private var style: String {
    if isActivity { return "activity" }
    if entry.pushType == "voip" { return "call" }
    return isVisible ? "banner" : "silent"
  }

  private var kind: String {
    switch entry.pushType.lowercased() {
    case "liveactivity": "Live Activity: \(aps?["event"]?.string ?? "no event")"
    case "voip": "Incoming call"
    case "background": "Background update, not shown"
    case "complication": "Complication update, not shown"
    case "fileprovider": "Files changed, not shown"
    case "location": "Location asked for, not shown"
    case "mdm": "Device management, not shown"
    case "pushtotalk": "Push to talk"
    case "widgets": "Widgets reload, not shown"
    case "controls": "Controls reload, not shown"
    case "accessory": "Answer of an accessory, not shown"
    default:
      if entry.topic.hasPrefix("pass.") {
        "Wallet pass update"
      } else if aps?["badge"] != nil {
        "Badge only"
      } else if aps?["sound"] != nil {
        "Sound only"
      } else {
        "Nothing to show"
      }
    }
  }

  // MARK: - What it says

  private var content: String {
    var lines = ""
    if !isVisible || isActivity || entry.pushType == "voip" { lines += line("kind", kind) }
    if isVisible {
      let alert = aps?["alert"]
      if let plain = alert?.string {
        lines += line("text", plain)
      } else {
        lines += line("title", shown(alert, "title", "title-loc"))
        lines += line("subtitle", shown(alert, "subtitle", "subtitle-loc"))
        lines += line("text", shown(alert, "body", "loc"))
      }
    }
    if isActivity, let state = aps?["content-state"]?.object {
      let rows = state.sorted { $0.key < $1.key }
        .map { "<tr><td>\(escaped($0.key))</td><td>\(escaped(cut($0.value.text)))</td></tr>" }
      lines += "<table>\(rows.joined())</table>"
    } else if !isVisible, let own = root?.object?.filter({ $0.key != "aps" }), !own.isEmpty {
      lines += line(
        "text", own.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.text)" }.joined(separator: "\n"))
    }
    return lines
  }

  private func line(_ style: String, _ text: String?) -> String {
    guard let text, !text.isEmpty else { return "" }
    return "<p class=\(style) dir=auto>\(escaped(cut(text)))</p>"
  }

  private func cut(_ text: String) -> String {
    text.count > Self.charactersMaximum ? text.prefix(Self.charactersMaximum) + "…" : text
  }

  /// The plain text, or the localisation key with its arguments.
  private func shown(_ alert: JSONValue?, _ plain: String, _ localized: String) -> String? {
    if let text = alert?[plain]?.string { return text }
    let inner = alert?[plain]
    guard let key = (alert?[localized + "-key"] ?? inner?["loc-key"])?.string else { return nil }
    let arguments = (alert?[localized + "-args"] ?? inner?["loc-args"])?.array ?? []
    return arguments.isEmpty ? key : "\(key)(\(arguments.map(\.text).joined(separator: ", ")))"
  }

  private var chips: [String] {
    var chips: [String] = [entry.pushType.isEmpty ? "no push type" : entry.pushType]
    let sound = aps?["sound"] ?? aps?["alert"]?["sound"]
    if let name = sound?.string ?? sound?["name"]?.string { chips.append("sound: \(name)") }
    if sound?["critical"]?.integer == 1 { chips.append("critical") }
    if let level = aps?["interruption-level"]?.string { chips.append(level) }
    for key in ["category", "thread-id"] {
      if let text = aps?[key]?.string { chips.append("\(key): \(cut(text))") }
    }
    if aps?["mutable-content"]?.integer == 1 { chips.append("changed by the app first") }
    if aps?["content-available"]?.integer == 1, isVisible { chips.append("wakes the app") }
    if entry.ending != .answered { chips.append("the client never heard: \(entry.ending.rawValue)") }
    return chips
  }

  private var payloadText: String { String(decoding: payload, as: UTF8.self) }

  /// The time of day, UTC.
  private var time: String {
    let seconds = entry.receivedAt / 1000 % 86_400
    let part = { (value: Int64) in value < 10 ? "0\(value)" : String(value) }
    return part(seconds / 3600) + ":" + part(seconds / 60 % 60) + ":" + part(seconds % 60) + " UTC"
  }

  /// A colour for each app, the same on every run.
  private static func hue(of app: String) -> Int {
    app.utf8.reduce(7) { ($0 &* 31 &+ Int($1)) % 360 }
  }
}

extension JSONValue {
  /// A value as text: strings without quotes, the rest as JSON.
  fileprivate var text: String {
    switch self {
    case .null: "null"
    case .bool(let flag): flag ? "true" : "false"
    case .number(let number, let isInteger):
      if isInteger, let whole = Int64(exactly: number) { String(whole) } else { String(number) }
    case .string(let text): text
    case .array(let values): "[" + values.map(\.text).joined(separator: ", ") + "]"
    case .object(let members):
      "{" + members.sorted { $0.key < $1.key }.map { "\($0.key): \($0.value.text)" }.joined(separator: ", ") + "}"
    }
  }
}
