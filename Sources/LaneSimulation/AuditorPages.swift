/// Checks of pages: the audience is told each device's end exactly once, and nothing is sent to a forgotten
/// device.
extension Auditor {
  /// The devices of a page, in its order.
  package func expectSettlements(ofPage targets: [Target]) {
    guard let page = targets.first?.job else { return }
    pages[page] = targets
    for (position, target) in targets.enumerated() { positions[target] = (page, position) }
  }

  /// The broker stored a lane's report of a page's ends. If reported twice, the first report counts.
  func brokerKeptSettlement(ofPage page: String, position: Int, ends: String) {
    guard let targets = pages[page] else { return violate("an outcome of an unknown page: \(page)") }
    for (index, end) in ends.enumerated() where end != "-" {
      guard position + index < targets.count else {
        violate("an end behind the page was told: \(page)")
        continue
      }
      let target = targets[position + index]
      if end == "s", lostAt[target.token] == nil { violate("told as skipped, and its token was there: \(target)") }
      if end == "s" { skipped.insert(target) }
      if reportedEnds[target] == nil { reportedEnds[target] = end }
    }
  }

  /// The registry lost a device's token.
  func lostToken(_ token: String, at time: Int64) {
    if lostAt[token] == nil { lostAt[token] = time }
  }

  /// Checks that the end told to the audience matches the device's outcomes.
  func checkToldEnd(_ target: Target, _ outcomes: [String]) {
    guard positions[target] != nil else { return }
    guard let end = reportedEnds[target] else { return violate("its audience was never told of its end: \(target)") }
    let isRight = end == "s" || outcomes.contains { $0.first == end }
    if !isRight { violate("told as \(end), and its outcomes are \(outcomes): \(target)") }
  }
}
