package import Foundation
import PushCore
import PushLane

/// The state of a running worker's pools, for `/status` and `herald check --live`.
package struct WorkerStatus: Codable, Sendable {
  /// One pool of one lane: the connections of a credential in an environment.
  package struct Pool: Codable, Sendable {
    package var lane: String
    package var credential: String
    package var environment: String
    /// `device`, `bad_tokens` (device tokens that were refused before) or `broadcast`.
    package var kind: String
    package var opening: Int
    package var ready: Int
    /// Open, but without an answer while others answer: no requests are sent there.
    package var silent: Int
    package var draining: Int
    package var streamsInFlight: Int
    /// Streams that APNs allows at once, on all ready connections.
    package var streamLimit: Int
    /// Bytes that APNs accepts now, on all ready connections.
    package var sendWindowBytes: Int
    /// Why requests wait: `no_connection`, `no_stream`, `no_window`, `no_answer`, `paused`; null if they do not.
    package var stalled: String?
    package var paused: Bool
    package var pausedTopics: Int
    /// Failed attempts to connect in a row, and the wait before the next one.
    package var failures: Int
    package var backoffMs: Int64
    package var peers: [String]
    package var lastError: String?
  }

  /// What APNs refuses, so that its jobs wait for a probe.
  package struct Pause: Codable, Sendable {
    package var credential: String
    package var environment: String
    /// null: everything of the credential.
    package var topic: String?
    /// `transactional`, `bulk` or `broadcasts`; null: all of the topic.
    package var `class`: String?
    package var reason: String
    /// Unix milliseconds.
    package var since: Int64
    /// Until the next probe may go out; 0: one may, or did.
    package var nextProbeMs: Int64
    /// The number of lanes that pause it.
    package var lanes: Int

    /// Whether a lift with these arguments ends it.
    package func isOf(credential: String?, topic: String?) -> Bool {
      (credential ?? self.credential) == self.credential && (topic == nil || topic == self.topic)
    }
  }

  package struct Lane: Codable, Sendable {
    package var name: String
    /// Whether the lane's loop turns; if not, the other values are from its last report.
    package var alive: Bool
    package var consuming: Bool
    package var jobsInFlight: Int
    /// The step of its oldest job while it stands still: `unstarted`, `admitting`, `token`, `room`, `channel`, `sent`, `reporting`,
    /// `confirm`; null while it moves.
    package var standsAt: String?
    /// How long nothing has been settled.
    package var standsForS: Int64?
  }

  package var version: String
  package var lanes: [Lane]
  package var pools: [Pool]
  package var pauses: [Pause]
  /// Credentials that a command revoked: they are not used until their key changes.
  package var revoked: [String]
  /// GOAWAY frames from APNs, by reason; `none` if they gave none.
  package var goaways: [String: UInt64]
  /// Connections that ended, by reason.
  package var ended: [String: UInt64]
  package var tlsFailures: UInt64
  package var connectionsOpened: UInt64
  package var connectionsFailed: UInt64

  /// As JSON, in snake_case.
  package func json() throws -> Data {
    let encoder = JSONEncoder()
    encoder.keyEncodingStrategy = .convertToSnakeCase
    encoder.outputFormatting = [.sortedKeys]
    return try encoder.encode(self)
  }

  package init(json: Data) throws {
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    self = try decoder.decode(WorkerStatus.self, from: json)
  }

  /// - Parameter reports: each lane's last report, if any, and whether it answers now.
  init(_ reports: [(name: String, report: LaneReport?, isAlive: Bool)], revoked: [String]) {
    self.revoked = revoked
    version = Herald.version
    lanes = []
    pools = []
    pauses = APNsPause.merged(reports.compactMap(\.report).flatMap(\.activePauses)).map(Pause.init)
    goaways = [:]
    ended = [:]
    tlsFailures = 0
    connectionsOpened = 0
    connectionsFailed = 0
    for (name, report, isAlive) in reports {
      lanes.append(
        Lane(
          name: name, alive: isAlive, consuming: report?.isConsuming ?? false, jobsInFlight: report?.jobsInFlight ?? 0,
          standsAt: report?.standstill?.step.label, standsForS: report?.standstill?.seconds))
      guard let report else { continue }
      for pool in report.pools { pools.append(Pool(pool, lane: name)) }
      for (reason, count) in report.goAways { goaways[reason.isEmpty ? "none" : reason, default: 0] += count }
      for (reason, count) in report.connectionsEnded where count > 0 { ended[reason, default: 0] += count }
      tlsFailures += report.tlsFailures
      connectionsOpened += report.connectionsOpened
      connectionsFailed += report.connectionsFailed
    }
  }
}

extension WorkerStatus.Pause {
  init(_ pause: APNsPause) {
    self.init(
      credential: pause.credential, environment: "\(pause.environment)",
      topic: pause.label.topic.isEmpty ? nil : pause.label.topic, class: pause.label.branchWord,
      reason: pause.label.reason, since: pause.since, nextProbeMs: pause.probeMilliseconds, lanes: pause.lanes)
  }
}

extension WorkerStatus.Pool {
  init(_ pool: APNsPoolSnapshot, lane: String) {
    self.init(
      lane: lane, credential: pool.credential, environment: "\(pool.environment)", kind: "\(pool.kind)",
      opening: pool.opening, ready: pool.ready, silent: pool.silent, draining: pool.draining,
      streamsInFlight: pool.streamsInFlight,
      streamLimit: pool.streamLimit, sendWindowBytes: pool.sendWindow, stalled: pool.stallCause?.rawValue,
      paused: pool.isPaused, pausedTopics: pool.pausedTopics, failures: pool.failures,
      backoffMs: pool.backoffMilliseconds, peers: pool.peers, lastError: pool.lastError)
  }
}
