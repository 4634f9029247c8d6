package import PushCore

/// What a lane says of itself when asked: a copy, for metrics and readiness.
package struct LaneReport: Sendable {
  /// Answers of APNs with one status and reason.
  package struct Responses: Sendable {
    package var status: Int
    package var reason: String
    package var count: UInt64
    /// Our validation or our code should have seen it before APNs did.
    package var isOurFault: Bool

    package init(status: Int, reason: String, count: UInt64, isOurFault: Bool = false) {
      self.status = status
      self.reason = reason
      self.count = count
      self.isOurFault = isOurFault
    }
  }

  package var counters: LaneCounters
  package var jobsInFlight: Int
  package var unconfirmed: Int
  package var isConsuming: Bool
  package var isExhausted: Bool
  /// By role; empty where the lane has no RabbitMQ.
  package var rabbitmqConnected: [(role: String, isConnected: Bool)] = []
  package var isBlocked = false
  /// nil where the lane has no Redis.
  package var isRedisUp: Bool?
  package var redisDegraded: [(feature: String, isDegraded: Bool)] = []
  package var pools: [APNsPoolSnapshot] = []
  package var responses: [Responses] = []
  /// Pauses of credentials and topics that began.
  package var pauses: UInt64 = 0
  /// Warnings of many refused device tokens among accepted ones.
  package var badDeviceTokenWarnings: UInt64 = 0
  package var goAways: [(reason: String, count: UInt64)] = []
  package var connectionsEnded: [(reason: String, count: UInt64)] = []
  package var connectionsOpened: UInt64 = 0
  package var connectionsFailed: UInt64 = 0
  package var tlsFailures: UInt64 = 0
  package var clockSkewSeconds: Int64?
  package var requestDuration = Histogram()

  package init(counters: LaneCounters, jobsInFlight: Int, unconfirmed: Int, isConsuming: Bool, isExhausted: Bool) {
    self.counters = counters
    self.jobsInFlight = jobsInFlight
    self.unconfirmed = unconfirmed
    self.isConsuming = isConsuming
    self.isExhausted = isExhausted
  }
}
