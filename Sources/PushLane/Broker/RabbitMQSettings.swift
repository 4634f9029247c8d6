package import PushIO

/// The settings of a lane's broker adapter, with all limits.
package struct RabbitMQSettings: Sendable {
  /// Tried in turn.
  package var addresses: [AMQPAddress]
  /// For `amqps://` addresses.
  package var tls: TLSContext?
  package var topology: Topology
  /// `<host>/<lane>`, for the connections' names.
  package var laneName: String
  /// Unacknowledged deliveries of transactional jobs: capacity that a bulk backlog cannot take.
  package var prefetchTransactional: UInt16
  package var prefetchBulk: UInt16
  package var reconnectInitialMilliseconds: Int64 = 200
  /// The longest wait: a broker that is back is noticed within this time.
  package var reconnectMaximumMilliseconds: Int64 = 3_000
  /// From an open connection to the end of its set-up. Longer than a broker takes that has just started.
  package var setUpMilliseconds: Int64 = 30_000
  /// Between two looks at the queues, to see whether they are empty.
  package var emptyPollMilliseconds: Int64 = 500
  /// Between two probes of a publisher for an alarm of the broker.
  package var alarmProbeMilliseconds: Int64 = 60_000
  /// Outcomes that no queue takes are returned. Off without a results log, when that is normal.
  package var outcomesAreMandatory: Bool
  package var connection = AMQPOptions()
  package var randomSeed: UInt64

  /// `prefetch`: for both classes together; half of it is reserved for transactional jobs.
  package init(
    addresses: [AMQPAddress], tls: TLSContext?, topology: Topology, laneName: String, prefetch: Int, randomSeed: UInt64
  ) {
    precondition(!addresses.isEmpty, "a broker needs an address")
    precondition(prefetch >= 2 && prefetch <= 65_535, "a prefetch lies between 2 and 65535")
    self.addresses = addresses
    self.tls = tls
    self.topology = topology
    self.laneName = laneName
    self.randomSeed = randomSeed
    prefetchTransactional = UInt16(LaneSettings.deliveriesMaximum(ofPrefetch: prefetch))
    prefetchBulk = UInt16(LaneSettings.deliveriesMaximum(ofPrefetch: prefetch + 1))
    outcomesAreMandatory = topology.resultsLog != nil
  }
}
