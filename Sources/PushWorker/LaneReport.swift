package import PushCore

/// What a lane says of itself when asked: a copy, for metrics and readiness.
package struct LaneReport: Sendable {
  package struct Pool: Sendable {
    package var credential: String
    package var environment: String
    /// Connections by state.
    package var connections: [(state: String, count: Int)]
    package var streamsInFlight: Int

    package init(
      credential: String, environment: String, connections: [(state: String, count: Int)], streamsInFlight: Int
    ) {
      self.credential = credential
      self.environment = environment
      self.connections = connections
      self.streamsInFlight = streamsInFlight
    }
  }

  /// Answers of APNs with one status and reason.
  package struct Responses: Sendable {
    package var status: Int
    package var reason: String
    package var count: UInt64

    package init(status: Int, reason: String, count: UInt64) {
      self.status = status
      self.reason = reason
      self.count = count
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
  package var pools: [Pool] = []
  package var responses: [Responses] = []
  package var goAways: [(reason: String, count: UInt64)] = []
  package var requestDuration = Histogram()

  package init(counters: LaneCounters, jobsInFlight: Int, unconfirmed: Int, isConsuming: Bool, isExhausted: Bool) {
    self.counters = counters
    self.jobsInFlight = jobsInFlight
    self.unconfirmed = unconfirmed
    self.isConsuming = isConsuming
    self.isExhausted = isExhausted
  }
}
