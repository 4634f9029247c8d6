package import PushWorker

/// A worker's status as a table.
package enum StatusTable {
  package static func lines(_ status: WorkerStatus) -> [String] {
    var lines = ["", "herald \(status.version): \(status.lanes.count) lanes"]
    for lane in status.lanes {
      let what = lane.alive ? (lane.consuming ? "consuming" : "not consuming") : "does not answer"
      lines.append("  lane \(lane.name): \(what), \(lane.jobsInFlight) jobs in flight")
      if let step = lane.standsAt, let seconds = lane.standsForS {
        lines.append("    stands still: nothing was settled for \(seconds) s, its oldest job is at \"\(step)\"")
      }
    }
    lines.append("")
    lines += TextTable.lines(
      [["LANE", "CREDENTIAL", "ENVIRONMENT", "KIND", "CONNECTIONS", "STREAMS", "WINDOW", "STALLED"]]
        + status.pools.map(row))
    if status.pools.isEmpty { lines.append("no pool was used yet") }
    for pool in status.pools {
      guard let error = pool.lastError else { continue }
      lines.append("  \(pool.credential) \(pool.environment): \(error); next attempt in \(pool.backoffMs) ms")
    }
    if !status.pauses.isEmpty { lines += [""] + PausesTable.lines(status.pauses) }
    if !status.revoked.isEmpty {
      lines.append("revoked: \(status.revoked.joined(separator: ", "))")
    }
    lines.append("")
    lines.append(
      "connections: \(status.connectionsOpened) opened, \(status.connectionsFailed) failed, "
        + "\(status.tlsFailures) TLS failures")
    lines.append("ended: \(counts(status.ended))")
    lines.append("GOAWAY: \(counts(status.goaways))")
    return lines
  }

  private static func row(_ pool: WorkerStatus.Pool) -> [String] {
    var connections = "\(pool.ready) ready"
    if pool.opening > 0 { connections += ", \(pool.opening) opening" }
    if pool.silent > 0 { connections += ", \(pool.silent) silent" }
    if pool.draining > 0 { connections += ", \(pool.draining) draining" }
    var stalled = pool.stalled ?? "no"
    if pool.pausedTopics > 0 { stalled += " (\(pool.pausedTopics) topics paused)" }
    return [
      pool.lane, pool.credential, pool.environment, pool.kind, connections,
      "\(pool.streamsInFlight)/\(pool.streamLimit)", "\(pool.sendWindowBytes)", stalled,
    ]
  }

  private static func counts(_ counts: [String: UInt64]) -> String {
    counts.isEmpty ? "none" : counts.sorted { $0.key < $1.key }.map { "\($0.value) \($0.key)" }.joined(separator: ", ")
  }
}
