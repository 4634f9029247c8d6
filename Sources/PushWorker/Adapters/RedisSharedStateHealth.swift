import PushCore
import PushIO

/// How shared state fails, recovers and says so: connections, breakers, probes, notices, and the timer that wakes the loop.
extension RedisSharedState {
  func refused(_ node: RedisSharedStateNode, _ error: RedisServerError, now: Now) {
    counters.errors &+= 1
    if error.isWriteRefusal {
      // The script had looked before it tried to write, so Redis still serves what it knows.
      node.writeRefusal = error
      node.breaker.succeeded()
      tell()
    } else {
      failed(node, "Redis refuses: \(error)", now: now)
    }
  }

  func writeSucceeded(_ node: RedisSharedStateNode) {
    if node.writeRefusal == nil { return }
    node.writeRefusal = nil
    tell()
  }

  func failed(_ node: RedisSharedStateNode, _ reason: @autoclosure () -> String, now: Now) {
    guard node.breaker.failed(now: now.monotonic) else { return }
    node.outage = reason()
    tell()
  }

  func lost(tag: UInt64, _ node: RedisSharedStateNode, now: Now) {
    if tag & RedisConnection.requestBit != 0 {
      if tag == node.reloadTag { node.reloadTag = nil } else { replies.append((tag, nil)) }
      return
    }
    for _ in 0..<tag { lostFirst(of: node, now: now) }
  }

  private func lostFirst(of node: RedisSharedStateNode, now: Now) {
    guard let entry = node.waiting.popFirst() else { preconditionFailure("a loss without its command") }
    switch entry.kind {
    case .admission:
      if !entry.isAnswered { answerLocally(entry, now: now) }
    case .memory:
      // It may have run or not: told twice is the same.
      let told = node.unconfirmed.popFirst()
      keep(told.outcome, of: told.request, now: now)
    case .tighten, .end, .probe, .asking:
      break
    }
  }

  func connected(_ node: RedisSharedStateNode, now: Now) {
    if commands == nil { makeCommands() }
    _ = node.breaker.connected()
    node.outage = nil
    node.writeRefusal = nil
    tell()
    settle(isWhole: router.isWhole, now: now)
  }

  func disconnected(_ node: RedisSharedStateNode, _ error: RedisError, now: Now) {
    counters.disconnects &+= 1
    _ = node.breaker.lost(now: now.monotonic)
    node.outage = error.description
    tell()
    settle(isWhole: true, now: now)
  }

  /// The first connection succeeded or failed: what waited for it is asked now.
  func settle(isWhole: Bool, now: Now) {
    guard !isSettled, isWhole else { return }
    isSettled = true
    let waited = early
    early = []
    for var entry in waited {
      entry.deadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds)
      entry.lastDeadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds &* settings.patience)
      ask(entry, now: now)
    }
  }

  /// The digest is that of the script's text: every server's is the same.
  func makeCommands() {
    guard let digest = nodes.lazy.map({ $0.connection.scriptDigest(0) }).first(where: { !$0.isEmpty }) else { return }
    commands = RedisScriptCommands(settings: settings)
    let format = RedisAdmissionFormat(digest: digest, settings: settings)
    admissionFormat = format
    for node in nodes {
      // Written with the limits of before, they go out with them.
      flush(node, now: loop.now)
      node.admissions = RedisAdmissions(format: format)
    }
  }

  func probed(_ node: RedisSharedStateNode, _ head: RedisValue, now: Now) {
    var isHealthy = head.kind == .status
    if head.kind == .error {
      let error = serverError(head, node)
      isHealthy = error.isWriteRefusal
      if isHealthy {
        node.writeRefusal = error
      } else {
        node.outage = node.outage.map { _ in "Redis refuses: \(error)" }
      }
      if error.kind == .readOnly, node.nextReconnect <= now.monotonic {
        node.nextReconnect = now.monotonic.adding(milliseconds: RedisSharedState.replicaReconnectMilliseconds)
        node.connection.reconnect()
      }
    } else if isHealthy {
      node.writeRefusal = nil
    }
    if node.breaker.probeAnswered(isHealthy: isHealthy, now: now.monotonic) { node.outage = nil }
    tell()
  }

  /// Sends the probe that is due, and sees to it that the loop wakes for what comes next.
  func maintain(_ node: RedisSharedStateNode, now: Now) {
    if let deadline = node.waiting.nextDeadline() {
      wakeUp(at: max(deadline, node.lastReply.addingMilliseconds(settings.timeoutMilliseconds)))
    }
    guard node.connection.isReady else { return }
    if node.breaker.isClosed {
      guard node.writeRefusal != nil else { return }
      if node.nextWriteProbe <= now.monotonic {
        sendProbe(node)
        node.nextWriteProbe = now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds)
      }
    } else if node.breaker.takeProbe(now: now.monotonic) {
      sendProbe(node)
    }
    wakeUp(at: now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds))
  }

  func sendProbe(_ node: RedisSharedStateNode) {
    guard let commands else { return }
    guard node.connection.send(router.isCluster ? commands.ping : commands.probe, tag: 1) else { return }
    node.waiting.append(Entry(kind: .probe, request: Entry.noRequest))
  }

  /// One notice for each change between whole and degraded.
  func tell() {
    let reason = trouble
    if (reason != nil) == toldDegraded { return }
    toldDegraded = reason != nil
    notices.append(reason.map { .degraded(reason: $0) } ?? .recovered)
  }

  /// One timer, for the earliest of what is due: it only ends the loop's wait, the lane's turn does the rest.
  func wakeUp(at instant: Instant) {
    if let wake, !wake.flag.hasFired {
      if wake.at <= instant { return }
      loop.cancel(wake.token)
    }
    let delay = max(0, instant.milliseconds(since: loop.now.monotonic)) + 1
    // The timer holds a flag and not this object: a weak reference would make every retain of it a slow one.
    let flag = WakeFlag()
    wake = (loop.schedule(afterMilliseconds: delay) { flag.hasFired = true }, instant, flag)
  }
}

/// Whether a timer has run.
final class WakeFlag {
  var hasFired = false
}

extension Instant {
  /// Also of a moment that never was.
  func addingMilliseconds(_ milliseconds: Int64) -> Instant {
    Instant(nanoseconds: nanoseconds.addingReportingOverflow(milliseconds * 1_000_000).partialValue)
  }
}
