import PushCore

/// Connections to all of a Redis: one server, the primary that Sentinels name, or the nodes of a cluster.
///
/// Every command goes to a node, by its number; events come back with it. A single server is node 0, always. Who asks
/// for a key in a cluster asks `node(ofSlot:)`, and hands error replies to `redirect`, which says where to send the
/// command again. PULLED, like `RedisConnection`. Not Sendable: it belongs to the thread of its loop.
package final class RedisRouter {
  package let configuration: RedisConfiguration
  /// By number; grows with the cluster.
  package private(set) var connections: [RedisConnection] = []

  private let loop: EventLoop
  private let tls: TLSContext?
  private let scripts: [String]
  private let seed: UInt64
  private let limits: RedisReader.Limits
  private var cluster: RedisClusterState?
  private let sentinels: RedisSentinelWatch?
  /// The primary's address is known.
  private var isPrimaryKnown = false
  private var topologyRequest: (node: Int, tag: UInt64)?
  private var nextNode = 0
  private var wake: TimerToken?
  private var isClosed = false

  /// How often a cluster and Sentinels are looked after.
  private static let lookMilliseconds: Int64 = 100

  package init(
    loop: EventLoop, configuration: RedisConfiguration, tls: TLSContext?, scripts: [String] = [], seed: UInt64,
    limits: RedisReader.Limits = RedisReader.Limits()
  ) {
    self.loop = loop
    self.configuration = configuration
    self.tls = tls
    self.scripts = scripts
    self.seed = seed
    self.limits = limits
    switch configuration.topology {
    case .single:
      sentinels = nil
    case .cluster:
      sentinels = nil
      cluster = RedisClusterState(seeds: configuration.addresses)
    case .sentinel(let primary):
      sentinels = RedisSentinelWatch(loop: loop, configuration: configuration, primary: primary, seed: seed)
    }
    for _ in 0..<(cluster?.nodes.count ?? 1) { addConnection() }
  }

  deinit {
    if let wake { loop.cancel(wake) }
  }

  /// Connects, now and after every loss.
  package func connect() {
    if let sentinels { sentinels.connect() } else { for connection in connections { connection.connect() } }
    if configuration.topology != .single { look() }
  }

  /// Ends for good: flushes what was sent, tells nothing more.
  package func close() {
    isClosed = true
    if let wake { loop.cancel(wake) }
    wake = nil
    sentinels?.close()
    for connection in connections { connection.close() }
  }

  package var isCluster: Bool { cluster != nil }

  /// Every key can be asked for.
  package var isWhole: Bool {
    guard let cluster else { return connections[0].isReady }
    return cluster.isKnown && cluster.ownerNumbers.allSatisfy { connections[$0].isReady }
  }

  /// The node that has the slot.
  package func node(ofSlot slot: Int) -> Int { cluster?.owner(of: slot) ?? 0 }

  /// The node is in use: the server, the primary, or an owner of slots.
  package func isOwner(_ node: Int) -> Bool {
    guard let cluster, cluster.isKnown else { return true }
    return cluster.ownerNumbers.contains(node)
  }

  /// What to do with a command that got this error reply; nil: it is no redirect.
  package func redirect(_ error: RedisServerError, from node: Int) -> RedisClusterState.Redirect? {
    guard error.kind == .cluster else { return nil }
    let redirect = cluster?.redirect(error.message, from: node, now: loop.now.monotonic)
    addNewNodes()
    return redirect
  }

  /// The next event of this turn; nil once everything is told.
  package func nextEvent() -> (node: Int, event: RedisEvent)? {
    if let sentinels { follow(sentinels) }
    if let failure = sentinels?.takeFailure(), !isPrimaryKnown { return (0, .disconnected(failure)) }
    var silent = 0
    while silent < connections.count {
      let node = nextNode < connections.count ? nextNode : 0
      guard let event = connections[node].nextEvent() else {
        silent += 1
        nextNode = node + 1
        continue
      }
      silent = 0
      if takes(event, node) { continue }
      return (node, event)
    }
    askForTopology()
    return nil
  }

  // MARK: - Following

  private func addConnection() {
    var own = configuration
    own.address = cluster?.nodes[connections.count] ?? configuration.address
    connections.append(
      RedisConnection(
        loop: loop, configuration: own, tls: tls, scripts: scripts, seed: seed &+ UInt64(connections.count),
        limits: limits))
  }

  private func addNewNodes() {
    while let cluster, connections.count < cluster.nodes.count {
      addConnection()
      connections[connections.count - 1].connect()
    }
  }

  private func follow(_ sentinels: RedisSentinelWatch) {
    guard let address = sentinels.turn() else { return }
    if isPrimaryKnown {
      if connections[0].configuration.address != address { connections[0].move(to: address) }
    } else {
      isPrimaryKnown = true
      connections[0].move(to: address)
      connections[0].connect()
    }
  }

  /// Whether the event is the router's own.
  private func takes(_ event: RedisEvent, _ node: Int) -> Bool {
    switch event {
    case .reply(let tag, _):
      guard let request = topologyRequest, request == (node, tag) else { return false }
      topologyRequest = nil
      cluster?.learned(connections[node].copyReply(), now: loop.now.monotonic)
      addNewNodes()
      return true
    case .lost(let tag):
      guard let request = topologyRequest, request == (node, tag) else { return false }
      topologyRequest = nil
      cluster?.learned(nil, now: loop.now.monotonic)
      return true
    case .disconnected:
      cluster?.doubt(now: loop.now.monotonic)
      sentinels?.hurry()
      return false
    case .ready:
      return false
    }
  }

  private func askForTopology() {
    guard cluster != nil, topologyRequest == nil else { return }
    // While a node is away its slots may go to another one at any time.
    if !isWhole { cluster?.doubt(now: loop.now.monotonic) }
    let node = cluster?.nodeToAsk(now: loop.now.monotonic) { connections[$0].isReady }
    guard let node, let tag = connections[node].request(["CLUSTER", "SLOTS"]) else { return }
    topologyRequest = (node, tag)
  }

  /// Wakes the loop now and then: its owner's turn then looks after the rest.
  private func look() {
    wake = loop.schedule(afterMilliseconds: RedisRouter.lookMilliseconds) { [unowned self] in
      wake = nil
      if !isClosed { look() }
    }
  }
}
