import PushCore
import PushIO

/// How the admission store follows the slots of a cluster: to another node, for once or for good, or to nobody for a while.
extension RedisAdmissionStore {
  /// The slot is another node's: the command goes there.
  func isRedirected(_ error: RedisServerError, _ entry: Entry, from index: Int) -> Bool {
    guard let redirect = router.redirect(error, from: index), entry.resends < RedisAdmissionStore.resendsMaximum else {
      return false
    }
    addNodes()
    var again = entry
    again.resends += 1
    guard let target = target(of: redirect) else {
      guard redirect == .later, entry.kind == .admission else { return false }
      return postpone(entry, error, from: nodes[index], now: loop.now)
    }
    counters.redirects &+= 1
    let isSent: Bool?
    switch entry.kind {
    case .admission: return sendAdmission(again, to: target)
    case .tighten: isSent = commands?.sendTightening(entry.request, on: target.connection)
    case .memory, .probe, .asking: preconditionFailure("not redirected")
    }
    guard isSent == true else { return false }
    target.waiting.append(again)
    return true
  }

  /// Whom to send it to, made ready to take it. nil: nobody, yet.
  func target(of redirect: RedisClusterState.Redirect) -> RedisAdmissionNode? {
    switch redirect {
    case .moved(let node): nodes[node]
    case .ask(let node): sendAsking(to: nodes[node]) ? nodes[node] : nil
    case .later: nil
    }
  }

  /// Has the node take the next command for a slot that is on its way to it.
  private func sendAsking(to node: RedisAdmissionNode) -> Bool {
    guard let asking = commands?.asking, node.connection.send(asking, tag: 1) else { return false }
    node.waiting.append(Entry(kind: .asking, request: Entry.noRequest))
    return true
  }

  /// No node has the slot now. It is asked about again soon, and later each time, up to the timeout. false: that is over.
  private func postpone(_ entry: Entry, _ error: RedisServerError, from node: RedisAdmissionNode, now: Now) -> Bool {
    guard now.monotonic < entry.deadline else { return false }
    failed(node, "Redis refuses: \(error)", now: now)
    let left = entry.deadline.milliseconds(since: now.monotonic)
    let waited = settings.timeoutMilliseconds - left
    let delay = min(
      left, max(RedisAdmissionStore.postponeMilliseconds, waited), RedisAdmissionStore.postponeMaximumMilliseconds)
    postponed.append((entry, now.monotonic.adding(milliseconds: delay)))
    return true
  }

  func askPostponed(now: Now) {
    let waited = postponed
    postponed = []
    for (entry, at) in waited {
      if now.monotonic < at {
        postponed.append((entry, at))
      } else if now.monotonic >= entry.deadline || !sendAdmission(entry, to: nodes[node(for: entry.request)]) {
        answerLocally(entry, now: now)
      }
    }
    if let next = postponed.lazy.map(\.at).min() { wakeUp(at: next) }
  }
}
