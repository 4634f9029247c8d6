package import Logging
package import PushCore

/// What a pool is for. The raw value is its index among the pools of one (credential, environment).
package enum APNsPoolKind: UInt8, CaseIterable, CustomStringConvertible, Sendable {
  /// Device tokens.
  case device
  /// Device tokens that were refused before. Many refusals make APNs slow down or close a connection, so they have separate ones.
  case badTokens
  /// Broadcasts to channels.
  case broadcast

  /// As in `/status`.
  package var description: String {
    switch self {
    case .device: "device"
    case .badTokens: "bad_tokens"
    case .broadcast: "broadcast"
    }
  }
}

/// A line for the log, without its subject.
typealias APNsRemark = (level: Logger.Level, text: String)

/// A change for the log, reported once.
package struct APNsNotice: Sendable {
  package var level: Logger.Level
  /// Name of the credential.
  package var credential: String
  package var environment: APNsEnvironment
  package var text: String
}

/// Why a pool's requests wait.
package enum APNsStallCause: String, CaseIterable, Sendable {
  case noConnection = "no_connection"
  case noStream = "no_stream"
  case noWindow = "no_window"
  case noAnswer = "no_answer"
  /// APNs refuses the credential or the topic: everything waits for a probe.
  case paused

  init(_ stall: PoolState.Stall) {
    switch stall {
    case .noConnection: self = .noConnection
    case .noStream: self = .noStream
    case .noWindow: self = .noWindow
    case .noAnswer: self = .noAnswer
    }
  }
}

/// What is paused now, of a credential in an environment.
package struct APNsPause: Sendable {
  package var credential: String
  package var environment: APNsEnvironment
  package var label: PauseTable.Label
  /// When it began, Unix milliseconds.
  package var since: Int64
  /// Until its next probe may go out; 0: one may, or did.
  package var probeMilliseconds: Int64
  /// The number of lanes that pause it.
  package var lanes = 1

  /// Lanes pause by themselves: what several pause is one pause, since the first.
  package static func merged(_ pauses: [APNsPause]) -> [APNsPause] {
    var merged: [APNsPause] = []
    for pause in pauses {
      let known = merged.firstIndex {
        $0.credential == pause.credential && $0.environment == pause.environment && $0.label.topic == pause.label.topic
          && $0.label.branch == pause.label.branch
      }
      guard let known else {
        merged.append(pause)
        continue
      }
      merged[known].since = min(merged[known].since, pause.since)
      merged[known].probeMilliseconds = min(merged[known].probeMilliseconds, pause.probeMilliseconds)
      merged[known].lanes += 1
    }
    return merged.sorted { $0.since < $1.since }
  }
}

/// One pool's state, for metrics and `/status`.
package struct APNsPoolSnapshot: Sendable {
  /// Connections by state, named as in metrics.
  package var connections: [(state: String, count: Int)] {
    [("opening", opening), ("ready", ready), ("silent", silent), ("draining", draining)]
  }

  package var credential: String
  package var environment: APNsEnvironment
  package var kind: APNsPoolKind
  package var opening: Int
  package var ready: Int
  /// Open, but without an answer while others answer: no requests are sent there.
  package var silent: Int
  package var draining: Int
  package var streamsInFlight: Int
  package var streamLimit: Int
  /// Free connection windows, bytes.
  package var sendWindow: Int
  package var failures: Int
  package var backoffMilliseconds: Int64
  package var isPaused: Bool
  package var pausedTopics: Int
  /// Why requests wait; nil if they do not.
  package var stallCause: APNsStallCause?
  /// Peers of the ready connections.
  package var peers: [String]
  /// Why the last connection failed; nil while connections succeed.
  package var lastError: String?
}

/// One lane's counts since its start.
package struct APNsCounters: Sendable {
  /// A kind of answer.
  package struct Answer: Hashable, Sendable {
    package var status: UInt16
    /// nil if APNs gave none.
    package var reason: APNsReason?

    package init(status: UInt16, reason: APNsReason?) {
      self.status = status
      self.reason = reason
    }
  }

  /// Maximum of distinct answers; beyond it, unknown reasons are counted together.
  private static let answersMaximum = 96

  /// Requests written.
  package internal(set) var requests: UInt64 = 0
  /// Status 200, without the verdict table.
  package internal(set) var accepted: UInt64 = 0
  package private(set) var refusals: [Answer: UInt64] = [:]
  package internal(set) var notProcessed: UInt64 = 0
  package internal(set) var lost: UInt64 = 0
  package internal(set) var timedOut: UInt64 = 0
  package internal(set) var connectionsOpened: UInt64 = 0
  package internal(set) var connectionsFailed: UInt64 = 0
  package private(set) var connectionsEnded: InlineArray<9, UInt64> = InlineArray(repeating: 0)
  /// Handshakes that failed, and connections that TLS broke.
  package internal(set) var tlsFailures: UInt64 = 0
  package internal(set) var pings: UInt64 = 0
  /// By the reason in the GOAWAY; `""` if it has none.
  package private(set) var goAways: [String: UInt64] = [:]
  /// Pauses that began.
  package internal(set) var pauses: UInt64 = 0
  /// Warnings of many refused device tokens among accepted ones.
  package internal(set) var badDeviceTokenWarnings: UInt64 = 0
  /// How often APNs called a fresh provider token expired.
  package internal(set) var clockSuspicions: UInt64 = 0
  /// Notices that were dropped because nobody took them.
  package internal(set) var noticesDropped: UInt64 = 0
  /// From a request's submission to its answer.
  package internal(set) var requestDuration = Histogram()

  package init() {}

  mutating func refused(_ status: UInt16, _ reason: APNsReason?) {
    let answer = Answer(status: status, reason: reason)
    if refusals.count < APNsCounters.answersMaximum || refusals[answer] != nil {
      refusals[answer, default: 0] += 1
    } else {
      refusals[Answer(status: status, reason: .other("other")), default: 0] += 1
    }
  }

  mutating func wentAway(_ reason: APNsReason?) {
    let isBounded = goAways.count < APNsCounters.answersMaximum
    goAways[isBounded ? reason?.name ?? "" : "other", default: 0] += 1
  }

  mutating func ended(_ reason: ConnectionState.EndReason) {
    connectionsEnded[Int(reason.rawValue)] += 1
  }

  /// How many connections ended for this reason.
  package func ended(for reason: ConnectionState.EndReason) -> UInt64 {
    connectionsEnded[Int(reason.rawValue)]
  }
}
