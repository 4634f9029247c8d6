package import PushCore

/// A lane's report on itself: a copy, for metrics and readiness.
package struct LaneReport: Sendable {
  /// Answers of APNs with one status and reason.
  package struct Responses: Sendable {
    package var status: Int
    package var reason: String
    package var count: UInt64
    /// Our validation or our code should have prevented it.
    package var isOurFault: Bool

    package init(status: Int, reason: String, count: UInt64, isOurFault: Bool = false) {
      self.status = status
      self.reason = reason
      self.count = count
      self.isOurFault = isOurFault
    }
  }

  /// A lane that stands still: see `StandstillState`.
  package struct Standstill: Sendable {
    /// The oldest job's step.
    package var step: DeliveryStep
    /// How long nothing has been settled.
    package var seconds: Int64
    /// The broker refuses publishes.
    package var isRefused: Bool
  }

  package var counters: LaneCounters
  package var jobsInFlight: Int
  package var unconfirmed: Int
  package var isConsuming: Bool
  package var isExhausted: Bool
  /// By `DeliveryStep`: the age of the oldest job in it; 0 if there is none.
  package var oldestSeconds: [Double] = Array(repeating: 0, count: DeliveryStep.allCases.count)
  /// nil while it settles its jobs.
  package var standstill: Standstill?
  /// By `DeliveryStep`: how often the lane was restarted because it stood still there.
  package var restarts: [UInt64] = Array(repeating: 0, count: DeliveryStep.allCases.count)
  /// By role; empty if the lane has no RabbitMQ.
  package var rabbitmqConnected: [(role: String, isConnected: Bool)] = []
  package var isBlocked = false
  /// The exchanges and queues that refuse what the lane publishes.
  package var refusing: [RefusedDestination] = []
  /// nil if the lane has no Redis.
  package var isRedisUp: Bool?
  package var redisDegraded: [(feature: String, isDegraded: Bool)] = []
  /// Admissions that were decided without Redis.
  package var decidedLocally: [(feature: String, count: UInt64)] = []
  /// The lane's name.
  package var lane = ""
  /// Silences of Redis for which an admission was decided without it.
  package var redisSilences: UInt64 = 0
  package var pools: [APNsPoolSnapshot] = []
  package var activePauses: [APNsPause] = []
  /// Pools with jobs and without a good answer for a while: most of their jobs are put off.
  package var stuckPools = 0
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

  /// The report of a lane that has ended: its counts, without its state.
  package func ended() -> LaneReport {
    var report = LaneReport(
      counters: counters, jobsInFlight: 0, unconfirmed: 0, isConsuming: false, isExhausted: isExhausted)
    report.lane = lane
    report.restarts = restarts
    report.rabbitmqConnected = rabbitmqConnected.map { ($0.role, false) }
    report.redisDegraded = redisDegraded.map { ($0.feature, false) }
    report.decidedLocally = decidedLocally
    report.redisSilences = redisSilences
    report.responses = responses
    report.pauses = pauses
    report.badDeviceTokenWarnings = badDeviceTokenWarnings
    report.goAways = goAways
    report.connectionsEnded = connectionsEnded
    report.connectionsOpened = connectionsOpened
    report.connectionsFailed = connectionsFailed
    report.tlsFailures = tlsFailures
    report.requestDuration = requestDuration
    return report
  }
}
