/// A fault that a world injects.
package enum WorkerFault: String, CaseIterable, Sendable {
  // MARK: the network
  /// A connection breaks.
  case cut
  /// A connection delivers nothing for a while.
  case silence
  /// A server refuses connections for a while.
  case refuse

  // MARK: the workers
  /// A worker dies and restarts, perhaps with another configuration.
  case killWorker
  /// A worker drains, and another one is started.
  case drainWorker
  /// A worker reloads its configuration, with other limits.
  case reloadWorker
  /// A worker must not use its credential until an operator lifts that.
  case revokeCredential
  /// A worker hangs for 20 to 30 seconds, and then goes on.
  case pauseWorker
  /// A worker's wall clock jumps by minutes (by hours if `clocksDriftByHours`) for a while.
  case setClock

  // MARK: RabbitMQ
  case restartBroker
  /// It is down for a while.
  case stopBroker
  /// All its connections are closed with CONNECTION_FORCED.
  case closeConnections
  case closeChannel
  case cancelConsumers
  case moveLeader
  /// Publishers are blocked for a while.
  case alarm
  case dropConfirms
  case refusePublishes
  /// An operator deletes an empty queue.
  case deleteQueue
  /// An operator removes the binding of the outcomes' queue.
  case unbind

  // MARK: Redis
  /// It does not answer for a while.
  case stallRedis
  case loadRedis
  /// It refuses writes for a while.
  case readOnlyRedis
  case fullRedis
  case busyRedis
  case flushScripts
  case jumpRedisClock
  /// A worker starts with overrides of the rate while Redis stalls, and is told of their end before Redis answers.
  case fewerLimits
  /// It loses all data.
  case emptyRedis
  /// It crashes and loses its latest writes.
  case crashRedis
  /// Its state of some seconds ago comes back, as after a failover to a replica that lagged. Connections stay.
  case rewindRedis
  /// It evicts some keys.
  case evictRedis
  /// In a cluster: some slots with keys migrate to other nodes, which takes a while.
  case moveSlots
  /// With Sentinels: the replica takes over, without the latest writes.
  case failOverRedis

  // MARK: APNs
  /// It sometimes answers 503, for a while.
  case failAPNs
  case throttleAPNs
  /// It takes seconds to answer, for a while.
  case slowAPNs
  case goAwayAPNs
  case dropAPNs
  /// Requests are refused before they are processed.
  case refuseStreams
  /// Requests are accepted, and their streams are reset.
  case resetStreams
  /// Some requests are never answered, processed or not.
  case silenceStreams
  /// The maximum of streams of a connection changes all the time.
  case changeStreams
  case withholdWindow
  case ignorePings
  /// It rejects the provider token as too old.
  case expireToken
  /// Somebody deletes a channel of an activity there.
  case deleteChannel
  /// It does not know the key of the provider tokens, for a while.
  case revokeKey

  /// Kinds with a common cause: a world of the swarm has some families.
  package enum Family: CaseIterable, Sendable { case network, worker, rabbitmq, redis, memory, apns }

  /// Kinds that were added later: the oldest worlds do not draw them, so that their seeds stay valid.
  static let laterKinds: Set<WorkerFault> = [
    .failOverRedis, .revokeKey, .fewerLimits, .revokeCredential, .deleteChannel, .pauseWorker, .rewindRedis,
  ]

  package var family: Family {
    switch self {
    case .cut, .silence, .refuse: .network
    case .killWorker, .drainWorker, .reloadWorker, .revokeCredential, .pauseWorker, .setClock: .worker
    case .restartBroker, .stopBroker, .closeConnections, .closeChannel, .cancelConsumers, .moveLeader, .alarm,
      .dropConfirms, .refusePublishes, .deleteQueue, .unbind:
      .rabbitmq
    case .stallRedis, .loadRedis, .readOnlyRedis, .fullRedis, .busyRedis, .flushScripts, .jumpRedisClock,
      .fewerLimits:
      .redis
    case .emptyRedis, .crashRedis, .rewindRedis, .evictRedis, .moveSlots, .failOverRedis: .memory
    case .failAPNs, .throttleAPNs, .slowAPNs, .goAwayAPNs, .dropAPNs, .refuseStreams, .resetStreams, .silenceStreams,
      .changeStreams, .withholdWindow, .ignorePings, .expireToken,
      .deleteChannel, .revokeKey:
      .apns
    }
  }
}
