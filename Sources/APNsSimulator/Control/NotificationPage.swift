/// The page at the control port: the last notifications about as a device would show them, and the counters.
enum NotificationPage {
  static func html(_ state: SimulatorState) -> String {
    let ledger = state.ledger
    var cards = ""
    for notification in ledger.lastNotifications.reversed() { cards += card(notification) }
    if cards.isEmpty { cards = "<p class=none>Nothing was accepted yet.</p>" }
    var answers = ""
    for (name, count) in ledger.answers.sorted(by: { $0.key < $1.key }) {
      answers += "<tr><td>\(escaped(name))<td>\(count)"
    }
    var faults = ""
    for fault in state.plan.active { faults += "<li>\(escaped(fault.rule.text)) <i>(\(fault.count)×)</i>" }
    return """
      <!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>
      <meta name=viewport content="width=device-width"><title>APNs simulator</title>
      <style>
      body{font:15px/1.4 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}
      body{background:#eef0f4;color:#111}
      .card{background:#fff;border-radius:16px;padding:.7rem 1rem;margin:.5rem 0;box-shadow:0 1px 3px #0002}
      .card small{color:#666}.card b{display:block}.card p{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
      .badge{background:#e33;color:#fff;border-radius:1em;padding:0 .5em;margin-left:.4em}
      table{border-collapse:collapse}td{padding:.1rem 1rem .1rem 0}code{overflow-wrap:anywhere}
      @media(prefers-color-scheme:dark){body{background:#111;color:#eee}.card{background:#222}.card small{color:#aaa}}
      </style><h1>APNs simulator</h1>
      <p>\(ledger.requests) requests · \(ledger.accepted) accepted · \(ledger.duplicates.count) ids more than once ·
      \(ledger.connectionsOpen) of \(ledger.connectionsOpened) connections open</p>
      <table>\(answers)</table><ul>\(faults)</ul>\(cards)</html>
      """
  }

  private static func card(_ notification: SeenNotification) -> String {
    let entry = notification.entry
    let payload = JSONValue(notification.payload)
    let aps = payload?["aps"]
    var title = ""
    var text = ""
    switch aps?["alert"] {
    case .string(let plain)?: text = plain
    case .object?:
      let alert = aps?["alert"]
      title = shown(alert?["title"]) ?? alert?["title-loc-key"]?.string ?? ""
      let subtitle = shown(alert?["subtitle"]).map { $0 + "\n" } ?? ""
      text = subtitle + (shown(alert?["body"]) ?? alert?["loc-key"]?.string ?? "")
    default: text = String(decoding: notification.payload.prefix(300), as: UTF8.self)
    }
    let badge = aps?["badge"]?.integer.map { "<span class=badge>\($0)</span>" } ?? ""
    return """
      <div class=card><small>\(escaped(entry.topic)) · \(escaped(entry.pushType)) ·
      <code>\(escaped(entry.apnsID))</code></small>
      <b>\(escaped(title))\(badge)</b><p>\(escaped(text))</p>
      <small><code>\(escaped(String(entry.target.prefix(24))))…</code></small></div>
      """
  }

  private static func shown(_ value: JSONValue?) -> String? {
    value?.string ?? value?["loc-key"]?.string
  }

  static func escaped(_ text: String) -> String {
    var result = ""
    for character in text.unicodeScalars {
      switch character {
      case "&": result += "&amp;"
      case "<": result += "&lt;"
      case ">": result += "&gt;"
      case "\"": result += "&quot;"
      case "'": result += "&#39;"
      default: result.unicodeScalars.append(character)
      }
    }
    return result
  }
}
