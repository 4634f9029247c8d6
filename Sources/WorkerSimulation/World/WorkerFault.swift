/// What goes wrong in a world.
package enum WorkerFault: String, CaseIterable, Sendable {
  // MARK: the network
  /// A connection breaks.
  case cut
  /// Nothing arrives on a connection for a while.
  case silence
  /// Nobody can be reached at a server's address for a while.
  case refuse

  // MARK: the workers
  /// A worker dies, and is started again, perhaps with another configuration.
  case killWorker
  /// A worker is told to end, and another one is started.
  case drainWorker
  /// A worker reads its configuration again: it has other limits.
  case reloadWorker
  /// A worker is told not to use its credential, until it reads its configuration again.
  case revokeCredential
  /// A worker's wall clock jumps by minutes, or where clocks drift by hours, for a while.
  case setClock

  // MARK: RabbitMQ
  case restartBroker
  /// It is away for a while.
  case stopBroker
  /// All its connections are closed in order.
  case closeConnections
  case closeChannel
  case cancelConsumers
  case moveLeader
  /// Publishers are blocked for a while.
  case alarm
  case dropConfirms
  case refusePublishes
  /// Somebody deletes an empty queue.
  case deleteQueue
  /// Somebody removes the binding of the queue of outcomes.
  case unbind

  // MARK: Redis
  /// It answers nothing for a while.
  case stallRedis
  case loadRedis
  /// It takes no writes for a while.
  case readOnlyRedis
  case fullRedis
  case busyRedis
  case flushScripts
  case jumpRedisClock
  /// A worker is started with overrides of the rate while Redis answers nothing, and is told of their end before Redis answers.
  case fewerLimits
  /// It loses everything.
  case emptyRedis
  /// It crashes without what it was told last.
  case crashRedis
  /// It drops some keys.
  case evictRedis
  /// Of a cluster: some slots with keys move to other nodes, which takes a while.
  case moveSlots
  /// Where Sentinels name the primary: its replica takes its place, without what it was told last.
  case failOverRedis

  // MARK: APNs
  /// It answers 503 now and then, for a while.
  case failAPNs
  case throttleAPNs
  /// It takes seconds to answer, for a while.
  case slowAPNs
  case goAwayAPNs
  case dropAPNs
  /// Requests are refused before they are processed.
  case refuseStreams
  /// Requests are accepted, and their streams reset.
  case resetStreams
  /// Some requests are never answered, processed or not.
  case silenceStreams
  /// How many streams a connection may have changes all the time.
  case changeStreams
  case withholdWindow
  case ignorePings
  /// It says that the provider token is too old.
  case expireToken
  /// It does not know the key that provider tokens are signed with, for a while.
  case revokeKey

  /// Kinds that come of one cause: a world of the swarm has some of them.
  package enum Family: CaseIterable, Sendable { case network, worker, rabbitmq, redis, memory, apns }

  /// Kinds that came later: only worlds that were made for them have them.
  static let strange: Set<WorkerFault> = [.failOverRedis, .revokeKey, .fewerLimits, .revokeCredential]

  package var family: Family {
    switch self {
    case .cut, .silence, .refuse: .network
    case .killWorker, .drainWorker, .reloadWorker, .revokeCredential, .setClock: .worker
    case .restartBroker, .stopBroker, .closeConnections, .closeChannel, .cancelConsumers, .moveLeader, .alarm,
      .dropConfirms, .refusePublishes, .deleteQueue, .unbind:
      .rabbitmq
    case .stallRedis, .loadRedis, .readOnlyRedis, .fullRedis, .busyRedis, .flushScripts, .jumpRedisClock,
      .fewerLimits:
      .redis
    case .emptyRedis, .crashRedis, .evictRedis, .moveSlots, .failOverRedis: .memory
    case .failAPNs, .throttleAPNs, .slowAPNs, .goAwayAPNs, .dropAPNs, .refuseStreams, .resetStreams, .silenceStreams,
      .changeStreams, .withholdWindow, .ignorePings, .expireToken,
      .revokeKey:
      .apns
    }
  }
}
