package import Logging
package import PushCore

/// What a pool's requests are for. The raw value is its place among the pools of one (credential, environment).
package enum APNsPoolKind: UInt8, CaseIterable, CustomStringConvertible, Sendable {
  /// Device tokens.
  case device
  /// Device tokens that were refused before: many refusals make APNs slow or drop a connection, so they have their own.
  case badTokens
  /// Broadcasts to channels.
  case broadcast

  /// As `/status` calls it.
  package var description: String {
    switch self {
    case .device: "device"
    case .badTokens: "bad_tokens"
    case .broadcast: "broadcast"
    }
  }
}

/// A line for the log, of which it is not said yet whom it is about.
typealias APNsRemark = (level: Logger.Level, text: String)

/// Something that changed and is worth a line in the log, reported once.
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
  /// APNs refuses the credential, or the topic: everything waits for a probe.
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

/// One pool, for metrics and people.
package struct APNsPoolSnapshot: Sendable {
  /// Connections by state, as metrics name them.
  package var connections: [(state: String, count: Int)] {
    [("opening", opening), ("ready", ready), ("silent", silent), ("draining", draining)]
  }

  package var credential: String
  package var environment: APNsEnvironment
  package var kind: APNsPoolKind
  package var opening: Int
  package var ready: Int
  /// Open, but without an answer while others answer: no requests go there.
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
  /// Why requests wait; nil where they do not.
  package var stallCause: APNsStallCause?
  /// Peers of the ready connections.
  package var peers: [String]
  /// Why it could not connect last; nil while it can.
  package var lastError: String?
}

/// What one lane's service has counted since it began.
package struct APNsCounters: Sendable {
  /// A kind of answer.
  package struct Answer: Hashable, Sendable {
    package var status: UInt16
    /// nil where APNs gave none.
    package var reason: APNsReason?

    package init(status: UInt16, reason: APNsReason?) {
      self.status = status
      self.reason = reason
    }
  }

  /// Different answers that are counted apart; with more, unknown reasons fall together.
  private static let answersMaximum = 96

  /// Requests written.
  package internal(set) var requests: UInt64 = 0
  /// 200, without a look at the table.
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
  /// By the reason that the GOAWAY gave; `""` where it gave none.
  package private(set) var goAways: [String: UInt64] = [:]
  /// Pauses that began.
  package internal(set) var pauses: UInt64 = 0
  /// Warnings of many refused device tokens among accepted ones.
  package internal(set) var badDeviceTokenWarnings: UInt64 = 0
  /// Times that APNs called a fresh provider token expired.
  package internal(set) var clockSuspicions: UInt64 = 0
  /// Notices that nobody took in time.
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
