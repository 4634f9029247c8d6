import PushCore
import PushIO

/// How the admission store fails, recovers and says so: connections, breakers, probes, notices, and the timer that wakes the loop.
extension RedisAdmissionStore {
  func refused(_ node: RedisAdmissionNode, _ error: RedisServerError, now: Now) {
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

  func writeSucceeded(_ node: RedisAdmissionNode) {
    if node.writeRefusal == nil { return }
    node.writeRefusal = nil
    tell()
  }

  func failed(_ node: RedisAdmissionNode, _ reason: @autoclosure () -> String, now: Now) {
    guard node.breaker.failed(now: now.monotonic) else { return }
    node.outage = reason()
    tell()
    router.doubt()
  }

  func lost(tag: UInt64, _ node: RedisAdmissionNode, now: Now) {
    if tag & RedisConnection.requestBit != 0 {
      if !node.takeReload(tag) { replies.append((tag, nil)) }
      return
    }
    for _ in 0..<tag { lostFirst(of: node, now: now) }
  }

  private func lostFirst(of node: RedisAdmissionNode, now: Now) {
    guard let entry = node.waiting.popFirst() else { preconditionFailure("a loss without its command") }
    switch entry.kind {
    case .admission:
      if !entry.isAnswered { answerLocally(entry, now: now) }
    case .memory:
      // It may have run or not: told twice is the same.
      let told = node.unconfirmed.popFirst()
      keep(told.outcome, of: told.request, now: now)
    case .tighten, .probe, .asking:
      break
    }
  }

  func connected(_ node: RedisAdmissionNode, now: Now) {
    if commands == nil { makeCommands() }
    _ = node.breaker.connected()
    node.outage = nil
    node.writeRefusal = nil
    tell()
  }

  func disconnected(_ node: RedisAdmissionNode, _ error: RedisError, now: Now) {
    counters.disconnects &+= 1
    _ = node.breaker.lost(now: now.monotonic)
    node.outage = error.description
    tell()
  }

  /// Looked at every turn, from what is true then: what waits for all of Redis is asked once that is there, or known not to be,
  /// or was waited for long enough.
  func settleIfDue(now: Now) {
    let deadline =
      settleDeadline ?? now.monotonic.adding(milliseconds: router.configuration.connectTimeoutMilliseconds)
    settleDeadline = deadline
    guard router.isSettled || now.monotonic >= deadline else { return wakeUp(at: deadline) }
    isSettled = true
    tell()
    let waited = early
    early = []
    for var entry in waited {
      entry.deadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds)
      entry.lastDeadline = now.monotonic.adding(milliseconds: settings.timeoutMilliseconds &* settings.patience)
      ask(entry, now: now)
    }
  }

  /// Gives every connection up and makes it anew, for a lane that stands still: what was asked is decided by this lane's memory.
  func restart(now: Now) {
    for node in nodes { node.connection.reconnect() }
    guard !isSettled else { return }
    settleDeadline = now.monotonic
    settleIfDue(now: now)
  }

  /// The digests are those of the scripts' texts: every server's are the same.
  func makeCommands() {
    func digest(_ number: Int) -> [UInt8]? {
      nodes.lazy.map { $0.connection.scriptDigest(number) }.first { !$0.isEmpty }
    }
    guard let admit = digest(RedisScript.admitNumber), let tell = digest(RedisScript.tellNumber) else { return }
    commands = RedisScriptCommands(settings: settings, tellDigest: tell)
    let format = RedisAdmissionFormat(digest: admit, settings: settings)
    admissionFormat = format
    for node in nodes {
      // Written with the limits of before, they go out with them.
      flush(node, now: loop.now)
      node.admissions = RedisAdmissionCall(format: format)
    }
  }

  func probed(_ index: Int, _ head: RedisValue, now: Now) {
    let node = nodes[index]
    var isHealthy = head.kind == .status
    if head.kind == .error {
      let error = serverError(head, node)
      defer { addNodes() }
      switch router.redirect(error, from: index) {
      case .moved, .ask:
        // It serves its part of the cluster, which is another one now.
        isHealthy = true
        node.writeRefusal = nil
      case .later, nil:
        isHealthy = error.isWriteRefusal
      }
      if error.isWriteRefusal {
        node.writeRefusal = error
      } else if !isHealthy {
        node.outage = node.outage.map { _ in "Redis refuses: \(error)" }
      }
      if error.kind == .readOnly, node.nextReconnect <= now.monotonic {
        node.nextReconnect = now.monotonic.adding(milliseconds: RedisAdmissionStore.replicaReconnectMilliseconds)
        router.demoted(index)
      }
    } else if isHealthy {
      node.writeRefusal = nil
    }
    if node.breaker.probeAnswered(isHealthy: isHealthy, now: now.monotonic) { node.outage = nil }
    tell()
  }

  /// Sends the probe that is due, and sees to it that the loop wakes for what comes next.
  func maintain(_ index: Int, now: Now) {
    let node = nodes[index]
    if let deadline = node.waiting.nextDeadline() {
      wakeUp(at: max(deadline, node.lastReply.addingMilliseconds(settings.timeoutMilliseconds)))
    }
    guard node.connection.isReady else { return }
    if node.breaker.isClosed {
      guard node.writeRefusal != nil else { return }
      if node.nextWriteProbe <= now.monotonic {
        sendProbe(index)
        node.nextWriteProbe = now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds)
      }
    } else {
      // Its slots may go to another one.
      router.doubt()
      if node.breaker.takeProbe(now: now.monotonic) { sendProbe(index) }
    }
    wakeUp(at: now.monotonic.adding(milliseconds: settings.probeIntervalMilliseconds))
  }

  /// Asks whether the server takes writes; of a cluster's node, with a key that lies in one of its slots.
  func sendProbe(_ index: Int) {
    guard let commands else { return }
    let node = nodes[index]
    guard node.connection.send(router.isCluster ? clusterProbe(index) ?? commands.ping : commands.probe, tag: 1) else {
      return
    }
    node.waiting.append(Entry(kind: .probe, request: Entry.noRequest))
  }

  /// nil: no key was found, for the node has few slots or none.
  private func clusterProbe(_ index: Int) -> RedisCommand? {
    guard router.isOwner(index) else { return nil }
    for number in 0..<RedisAdmissionStore.probeKeysMaximum {
      let key = "\(settings.prefix)probe:\(number)"
      guard router.node(ofSlot: RedisSlot.of(key.utf8.span)) == index else { continue }
      return RedisCommand(["SET", key, "1", "PX", "1000"])
    }
    return nil
  }

  /// One notice for each change between whole and degraded.
  func tell() {
    // What is not connected yet is no news.
    guard isSettled else { return }
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
