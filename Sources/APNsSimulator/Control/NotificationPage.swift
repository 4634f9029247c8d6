import PushCore

/// The control port's page: the last notifications roughly as a device shows them, the counters, the answers and the faults. It refreshes
/// itself, except while something on it is unfolded or selected.
enum NotificationPage {
  static func html(_ state: SimulatorState) -> String {
    """
    <!doctype html><html lang=en><head><meta charset=utf-8><title>APNs simulator</title>
    <meta name=viewport content="width=device-width,initial-scale=1"><link rel=icon href="data:,">
    <noscript><meta http-equiv=refresh content=2></noscript>
    <style>\(PageStyle.css)</style><script>\(PageStyle.script)</script></head>
    <body>\(header(state))<main><section>\(feed(state.ledger))</section><aside>\(aside(state))</aside></main></body></html>
    """
  }

  private static func header(_ state: SimulatorState) -> String {
    let ledger = state.ledger
    let duplicates = ledger.duplicates.count
    var tiles = tile("requests", ledger.requests) + tile("accepted", ledger.accepted) + tile("refused", ledger.refused)
    tiles += tile("ids more than once", duplicates, isBad: duplicates > 0)
    tiles += tile("streams over the limit", ledger.streamsOverLimit, isBad: ledger.streamsOverLimit > 0)
    tiles += tile("open connections", ledger.connectionsOpen, of: ledger.connectionsOpened)
    return """
      <header><h1>APNs simulator <small>\(state.service.environment.name)</small></h1>
      <p class=gone>The simulator does not answer any more.</p><dl>\(tiles)</dl></header>
      """
  }

  private static func tile(_ name: String, _ count: Int, of all: Int? = nil, isBad: Bool = false) -> String {
    let rest = all.map { "<small> of \($0)</small>" } ?? ""
    return "<div\(isBad ? " class=bad" : "")><dt>\(name)</dt><dd>\(count)\(rest)</dd></div>"
  }

  private static func feed(_ ledger: Ledger) -> String {
    let cards = ledger.lastNotifications.reversed().map { NotificationCard($0).html }
    if !cards.isEmpty { return cards.joined() }
    return ledger.accepted == 0
      ? "<p class=none>Nothing was accepted yet. Send to the port that the simulator printed.</p>"
      : "<p class=none>\(ledger.accepted) accepted; the fast mode keeps no payloads.</p>"
  }

  private static func aside(_ state: SimulatorState) -> String {
    var answers = ""
    for (name, count) in state.ledger.answers.sorted(by: { $0.key < $1.key }) {
      let kind = name.hasPrefix("2") ? "ok" : name.hasPrefix("4") ? "no" : "bad"
      answers += "<tr><td class=\(kind)>\(escaped(name))</td><td>\(count)</td></tr>"
    }
    for (ending, count) in state.ledger.endings.sorted(by: { $0.key.rawValue < $1.key.rawValue })
    where ending != .answered {
      answers += "<tr><td class=bad>\(ending.rawValue)</td><td>\(count)</td></tr>"
    }
    var faults = ""
    for fault in state.plan.active {
      faults += "<tr><td><code>\(escaped(fault.rule.text))</code></td><td>\(fault.count)</td></tr>"
    }
    return "<h2>Answers</h2>" + (answers.isEmpty ? "<p class=none>None yet.</p>" : "<table>\(answers)</table>")
      + "<h2>Faults</h2>" + (faults.isEmpty ? "<p class=none>None is set.</p>" : "<table>\(faults)</table>")
      + "<h2>As JSON</h2><p><a href=/counters>counters</a> · <a href=/connections>connections</a> · "
      + "<a href=/notifications>notifications</a> · <a href=/activities>activities</a> · <a href=/ledger>ledger</a></p>"
  }

  /// Escapes text for an element or a quoted attribute.
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
